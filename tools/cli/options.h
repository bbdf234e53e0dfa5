// Options: the value of every flag of a verb, and its source.
//
//   const Options opts = parse_command_line(argc, argv, environ);
//   if (opts.flag("use_fp16")) ... opts.num("lr") ... opts.source("lr") == Source::command_line
//
// Unknown names and accessors of the wrong type are internal errors.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/cli/flags.h"

namespace amp::cli {

// Sources in rising precedence. derived: computed from other flags (eval_batch_size from batch_size).
enum class Source { fallback, derived, preset, plan, config, environment, command_line };
std::string_view name_of(Source s);  // "command line", "config", ..., "default"
std::optional<Source> source_from_name(std::string_view name);

class Options {
 public:
  explicit Options(Verb verb);  // all values are defaults

  Verb verb;
  std::vector<std::string> positional;  // without the verb; the model is also flag "model"
  std::vector<std::string> warnings;    // printed by the caller
  std::string config;                   // path of the configuration file; "" without one
  std::optional<Verb> help_topic;       // for verb help: the verb; nullopt: the overview
  bool help_all = false;
  std::string print;  // for verb help: the shell whose completions are printed, or "man" (completions.h)

  const std::string& str(std::string_view name) const;  // text and choice; "" if not set
  double num(std::string_view name) const;              // number
  int64_t integer(std::string_view name) const;
  bool flag(std::string_view name) const;
  const std::vector<std::string>& list(std::string_view name) const;
  const SettingValue& value(std::string_view name) const;

  bool has(std::string_view name) const;      // false for empty text and lists
  bool was_set(std::string_view name) const;  // true if the value is neither a default nor derived
  Source source(std::string_view name) const;
  // Returns the place that set the value: "environment variable ONNX_AMP_LR", "config.json"; "" for defaults.
  const std::string& origin(std::string_view name) const;

  // Sets a flag unless a source of higher precedence has set it; returns whether it was set. A precision plan or preset
  // offers its loss_scale keys after parsing; then call resolve() again.
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

// A value that one source gives to a flag, before precedence is applied.
struct Assignment {
  const Flag* flag = nullptr;
  std::string spelling;  // as written: "--learning_rate", "ONNX_AMP_LR"
  std::vector<std::string> texts;
  Source source = Source::command_line;
  std::string origin;  // place that gave the value, printed after "from ": "environment variable ONNX_AMP_LR"
};

// Converts the value that a spelling was given to the value of its flag: translates switches, resolves negation.
std::string plain_text(const Found& found, std::string_view text);

// Parses a command line. argv[0] is the program; envp is like environ, or nullptr. Throws E_USAGE (Exit::usage). If
// help or the version is requested, returns Options of the verb help or version without further checks.
Options parse_command_line(int argc, const char* const* argv, const char* const* envp);

// A command. A command line is one command, or several with --compat (compat.h).
struct Command {
  Options options;
  std::string line;  // this program's command line, if it was translated from another trainer's; else empty
};
std::vector<Command> parse_commands(int argc, const char* const* argv, const char* const* envp);

// Throws E_USAGE for contradictions between flags, then sets derived values. Idempotent.
void resolve(Options& opts);

}  // namespace amp::cli
