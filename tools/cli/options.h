// Options: the value of every flag of a verb, and the value's source.
//
//   const Options opts = parse_command_line(argc, argv, environ);
//   if (opts.flag("use_fp16")) ... opts.num("lr") ... opts.source("lr") == Source::command_line
//
// Unknown names, and accessors that do not fit the flag's type, are internal errors.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/cli/flags.h"

namespace amp::cli {

// Sources of values, in rising precedence. derived: computed from other flags (eval_batch_size from batch_size).
enum class Source { fallback, derived, preset, plan, config, environment, command_line };
std::string_view name_of(Source s);  // returns "command line", "config", ..., "default"
std::optional<Source> source_from_name(std::string_view name);

class Options {
 public:
  explicit Options(Verb verb);  // sets all flags to their defaults

  Verb verb;
  std::vector<std::string> positional;  // positional arguments without the verb; the model is also flag "model"
  std::vector<std::string> warnings;    // to be printed by the caller
  std::string config;                   // path of the configuration file; "" if there is none
  std::optional<Verb> help_topic;       // for verb help: the verb to explain; nullopt: the overview
  bool help_all = false;
  std::string print;  // for verb help: the shell whose completions are printed, or "man"

  const std::string& str(std::string_view name) const;  // for flags of type text and choice; "" if not set
  double num(std::string_view name) const;              // for flags whose value is a number
  int64_t integer(std::string_view name) const;
  bool flag(std::string_view name) const;
  const std::vector<std::string>& list(std::string_view name) const;
  const SettingValue& value(std::string_view name) const;

  bool has(std::string_view name) const;      // returns false for empty texts and lists
  bool was_set(std::string_view name) const;  // true if the value is neither a default nor derived
  Source source(std::string_view name) const;
  // Returns where the value was set: "environment variable ONNX_AMP_LR", "config.json"; "" for defaults.
  const std::string& origin(std::string_view name) const;

  // Sets a flag unless a source of higher precedence has set it; returns whether it was set. Precision plans and
  // presets call this with their loss_scale keys after parsing; then call resolve() again.
  bool offer(std::string_view name, std::vector<std::string> texts, Source source, std::string origin);

 private:
  struct Entry {
    SettingValue value;
    Source source = Source::fallback;
    std::string origin;
  };
  const Entry& entry(std::string_view name) const;
  template <class T>
  const T& typed(std::string_view name) const;
  std::vector<Entry> entries_;  // one per flag, in the order of flags()
};

// A value that one source gives to a flag. Precedence is applied later.
struct Assignment {
  const Flag* flag = nullptr;
  std::string spelling;  // the flag's name as it was written: "--learning_rate", "ONNX_AMP_LR"
  std::vector<std::string> texts;
  Source source = Source::command_line;
  std::string origin;  // where it was written, for messages: "environment variable ONNX_AMP_LR"
};

// Converts the value given with a spelling of a flag to the value of the flag: translates switches, resolves negation.
std::string plain_text(const Found& found, std::string_view text);

// Parses a command line. argv[0] is the program; envp is like environ, or nullptr. Throws E_USAGE (Exit::usage). If
// the command line requests help or the version, returns Options of the verb help or version without further checks.
Options parse_command_line(int argc, const char* const* argv, const char* const* envp);

// One command. A command line is one command, or several with --compat (compat.h).
struct Command {
  Options options;
  std::string line;  // this program's command line, if it was translated (compat.h); else empty
};
std::vector<Command> parse_commands(int argc, const char* const* argv, const char* const* envp);

// Throws E_USAGE for contradictions between flags, then sets derived values. May be called repeatedly.
void resolve(Options& opts);

}  // namespace amp::cli
