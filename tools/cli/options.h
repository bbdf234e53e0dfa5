// The options of one invocation: every flag of its verb with a value, and where that value came from.
//
//   const Options opts = parse_command_line(argc, argv, environ);
//   if (opts.flag("use_fp16")) ... opts.num("lr") ... opts.source("lr") == Source::command_line
//
// A name that no flag has, or an accessor of the wrong type, is a bug of ours and says so.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/cli/flags.h"

namespace amp::cli {

// Rising precedence. derived: follows from other flags (eval_batch_size from batch_size).
enum class Source { fallback, derived, preset, plan, config, environment, command_line };
std::string_view name_of(Source s);  // "command line", "config", ..., "default"
std::optional<Source> source_from_name(std::string_view name);

class Options {
 public:
  explicit Options(Verb verb);  // all defaults

  Verb verb;
  std::vector<std::string> positional;  // without the verb; the model is flag "model" too
  std::vector<std::string> warnings;    // for the caller to print
  std::optional<Verb> help_topic;       // verb help: of which verb (none: the overview)
  bool help_all = false;

  const std::string& str(std::string_view name) const;  // text and choice; "" when not set
  double num(std::string_view name) const;              // number
  int64_t integer(std::string_view name) const;
  bool flag(std::string_view name) const;
  const std::vector<std::string>& list(std::string_view name) const;
  const SettingValue& value(std::string_view name) const;

  bool has(std::string_view name) const;      // false for text and lists that are empty
  bool was_set(std::string_view name) const;  // by anything but its default or another flag
  Source source(std::string_view name) const;
  const std::string& origin(
      std::string_view name) const;  // "environment variable ONNX_AMP_LR", "config.json"; "" by default

  // Sets a flag from a source unless something of higher precedence has set it; true when it took. A precision plan
  // or preset offers its loss_scale keys so after parsing; call resolve() again then.
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
  std::vector<Entry> entries_;  // parallel to flags()
};

// A flag's value as one source gives it, before precedence.
struct Assignment {
  const Flag* flag = nullptr;
  std::string spelling;  // as written: "--learning_rate", "ONNX_AMP_LR"
  std::vector<std::string> texts;
  Source source = Source::command_line;
  std::string origin;  // continues "from ": "environment variable ONNX_AMP_LR"
};

// The canonical value text of what was written for a spelling: switches translated, negation undone.
std::string plain_text(const Found& found, std::string_view text);

// argv[0] is the program. envp as in environ, or nullptr. Usage errors: Exit::usage, E_USAGE. Asking for help or the
// version anywhere gives verb help or version and checks nothing else.
Options parse_command_line(int argc, const char* const* argv, const char* const* envp);

// A command line's commands, in their order: one, or with --compat those that another trainer's comes to (compat.h).
struct Command {
  Options options;
  std::string line;  // as it is written in our words; empty: it was
};
std::vector<Command> parse_commands(int argc, const char* const* argv, const char* const* envp);

// Contradictions between flags (usage errors), then the values that follow from others. Idempotent.
void resolve(Options& opts);

}  // namespace amp::cli
