// Parses argv and environment into Options. The order is: words, verb, sources in rising precedence, rules. Usage
// errors suggest the nearest known word.
#include <algorithm>

#include "base/error.h"
#include "base/number_text.h"
#include "base/text.h"
#include "tools/cli/compat.h"
#include "tools/cli/config.h"
#include "tools/cli/flag_text.h"
#include "tools/cli/options.h"

namespace amp::cli {
namespace {

struct Words {
  std::vector<Assignment> assignments;  // in the order given
  std::vector<std::string> positional;
};

[[noreturn]] void refuse_call(std::string fact, std::string hint) {
  fail(Exit::usage, "E_USAGE", std::move(fact), std::move(hint));
}

// Returns whether a word is a flag. "-1" and "-.5" are values, and "-" is a file name.
bool is_flag_word(std::string_view word) {
  if (word.size() < 2 || word[0] != '-') return false;
  return !(word[1] >= '0' && word[1] <= '9') && word[1] != '.';
}

[[noreturn]] void unknown_flag(std::string_view word, Verb verb) {
  const std::string_view bare = word.substr(std::min(word.find_first_not_of('-'), word.size()));
  std::string hint = hint_for_foreign_flag(bare);
  static const std::string version[] = {"version"};  // "version" is a verb; --version is not in the table of flags
  if (bare == "v" || bare == "V" || !nearest(bare, version).empty()) {
    hint = "did you mean --version, or --verbose?";
  } else if (hint.empty()) {
    const std::string near = nearest_flag(bare, verb);
    hint = near.empty() ? "see --help_all for all flags" : cat("did you mean --", near, "?");
  }
  refuse_call(cat("unknown flag ", printable(word)), std::move(hint));
}

// Guesses the verb for hints in errors, before the words are parsed.
Verb likely_verb(std::span<const std::string> words) {
  for (const std::string& w : words) {
    if (const VerbInfo* v = find_verb(w)) return v->verb;
  }
  return Verb::train;
}

// Returns whether a word is the value of the flag before it, if that flag's value is optional. Otherwise the word is a
// positional argument or another flag.
bool fits(const Flag& flag, const std::string& word) {
  const bool known = std::any_of(flag.synonyms.begin(), flag.synonyms.end(),
                                 [&](const auto& s) { return lower_case(word) == lower_case(s.first); });
  return known || flag.normalize(word);
}

Assignment one_flag(std::span<const std::string> words, size_t& i) {
  const std::string& word = words[i];
  const size_t equals = word.find('=');
  const std::string spelling = word.substr(0, equals);
  const auto found = find_flag(std::string_view(spelling).substr(spelling.starts_with("--") ? 2 : 1));
  if (!found) unknown_flag(spelling, likely_verb(words));
  Assignment a{found->flag, spelling, {}, Source::command_line, "the command line"};
  std::string text;
  const bool more = i + 1 < words.size();
  if (equals != std::string::npos) {
    text = word.substr(equals + 1);
  } else if (found->takes_switch()) {
    text = more && parse_bool(words[i + 1]) ? words[++i] : "true";
  } else if (!found->flag->alone.empty() && !(more && fits(*found->flag, words[i + 1]))) {
    text = found->flag->alone;
  } else if (more && !is_flag_word(words[i + 1])) {
    text = words[++i];
  } else {
    refuse_call(cat(spelling, " needs a value", more ? cat(", found the flag ", printable(words[i + 1])) : ""),
                cat("write ", spelling, "=VALUE, with VALUE ",
                    found->flag->allowed().empty() ? found->flag->metavar : found->flag->allowed()));
  }
  a.texts.push_back(plain_text(*found, text));
  return a;
}

Words split_words(std::span<const std::string> words) {
  Words out;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--") {
      out.positional.insert(out.positional.end(), words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
      break;
    }
    if (is_flag_word(words[i])) {
      out.assignments.push_back(one_flag(words, i));
    } else {
      out.positional.push_back(words[i]);
    }
  }
  return out;
}

// Returns the Options of a command line that requests help or the version; nullopt for other command lines. Such
// requests are handled first, so that a command line that is incomplete otherwise still gives help.
std::optional<Options> asked_for_help(std::span<const std::string> words) {
  const auto end = std::find(words.begin(), words.end(), "--");
  const auto asks = [&](std::initializer_list<std::string_view> names) {
    return std::any_of(words.begin(), end, [&](const std::string& w) {
      return std::find(names.begin(), names.end(), snake_case(w)) != names.end();
    });
  };
  if (asks({"__version"}) || (!words.empty() && words[0] == "version")) return Options(Verb::version);
  // Used only by the installation, so the help does not list it.
  if (words.size() == 2 && snake_case(words[0]) == "__print_completions") {
    Options o(Verb::help);
    o.print = words[1];
    return o;
  }
  if (words.size() == 1 && snake_case(words[0]) == "__print_man") {
    Options o(Verb::help);
    o.print = "man";
    return o;
  }
  const bool help_word = !words.empty() && words[0] == "help";
  if (!help_word && !asks({"__help", "_h", "__help_all"})) return std::nullopt;
  Options o(Verb::help);
  o.help_all = asks({"__help_all", "__all"});
  for (const std::string& w : words.subspan(help_word ? 1 : 0)) {
    if (is_flag_word(w)) continue;
    if (const VerbInfo* v = find_verb(w)) {
      o.help_topic = v->verb;
      break;
    }
    if (help_word) {
      std::vector<std::string> names;
      for (const VerbInfo& v : verbs()) names.emplace_back(v.name);
      const std::string near = nearest(w, names);
      refuse_call(cat("no help on '", printable(w), "': there is no such verb"),
                  near.empty() ? "see --help" : cat("did you mean '", near, "'?"));
    }
  }
  return o;
}

Verb take_verb(std::vector<std::string>& positional) {
  const VerbInfo* v = positional.empty() ? nullptr : find_verb(positional[0]);
  if (!v) return Verb::train;
  positional.erase(positional.begin());
  return v->verb;
}

void apply_command_line(Options& o, const std::vector<Assignment>& assignments) {
  std::vector<Assignment> merged;  // the last value of a flag; lists and file names are collected
  for (const Assignment& a : assignments) {
    if (!has(a.flag->verbs, o.verb)) {
      std::vector<std::string> names;
      for (const VerbInfo& v : verbs()) {
        if (has(a.flag->verbs, v.verb)) names.emplace_back(v.name);
      }
      refuse_call(cat("flag ", a.spelling, " is not one of '", info(o.verb).name, "'"),
                  cat("it belongs to: ", join(names, ", ")));
    }
    const auto same = std::find_if(merged.begin(), merged.end(), [&](const Assignment& m) { return m.flag == a.flag; });
    if (same == merged.end()) {
      merged.push_back(a);
    } else if (a.flag->type() == SettingType::list || a.flag->several_files) {
      same->texts.insert(same->texts.end(), a.texts.begin(), a.texts.end());
    } else {
      if (same->texts != a.texts)
        o.warnings.push_back(cat(a.spelling, " is given twice, ", printable(join(same->texts, ",")), " and ",
                                 printable(join(a.texts, ",")), ": the last one is used"));
      *same = a;
    }
  }
  for (const Assignment& a : merged) o.offer(a.flag->name, a.texts, a.source, a.origin);
}

std::string config_path(const std::vector<Assignment>& command_line, const std::vector<Assignment>& environment) {
  for (const auto* source : {&command_line, &environment}) {
    for (auto a = source->rbegin(); a != source->rend(); ++a) {
      if (a->flag->name == "config") return a->texts.back();
    }
  }
  return {};
}

void take_positionals(Options& o) {
  const VerbInfo& verb = info(o.verb);
  const auto given = static_cast<int>(o.positional.size());
  if (given > verb.max_positionals) {
    const std::string& extra = o.positional[static_cast<size_t>(verb.max_positionals)];
    std::vector<std::string> names;
    for (const VerbInfo& v : verbs()) names.emplace_back(v.name);
    const std::string near = verb.verb == Verb::train ? nearest(o.positional[0], names) : "";
    refuse_call(cat("unexpected word '", printable(extra), "' for '", verb.name, "'"),
                near.empty() ? cat("usage: onnx-amp-finetune ", verb.name, " ", verb.usage,
                                   "; repeat a flag to give it several values")
                             : cat("is '", printable(o.positional[0]), "' the verb '", near, "'?"));
  }
  if (!has(flag_named("model").verbs, o.verb) || given == 0) return;
  if (o.source("model") == Source::command_line && o.str("model") != o.positional[0]) {
    refuse_call(cat("two models: '", printable(o.positional[0]), "' and --model '", printable(o.str("model")), "'"),
                "give one of them");
  }
  o.offer("model", {o.positional[0]}, Source::command_line, "the command line");
}

void check_required(const Options& o) {
  for (const Flag& f : flags()) {
    if (!has(f.required, o.verb) || o.has(f.name)) continue;
    const std::string usage_line =
        cat("usage: onnx-amp-finetune ", o.verb == Verb::train ? "" : cat(info(o.verb).name, " "), info(o.verb).usage);
    if (f.name == "model") refuse_call(cat("'", info(o.verb).name, "' has no model"), usage_line);
    refuse_call(cat("'", info(o.verb).name, "' needs --", f.name, " ", f.metavar), usage_line);
  }
}

}  // namespace

namespace {

using Defaults = std::vector<std::pair<std::string, std::string>>;

Options parse_words(std::span<const std::string> words, const char* const* envp, const Defaults& defaults) {
  Words split = split_words(words);
  Options o(take_verb(split.positional));
  o.positional = std::move(split.positional);
  const std::vector<Assignment> environment = read_environment(envp, o.verb, o.warnings);
  std::string config = config_path(split.assignments, environment);
  // As in Hugging Face's scripts, a single .json argument is a configuration file.
  if (config.empty() && o.verb == Verb::train && o.positional.size() == 1 && o.positional[0].ends_with(".json")) {
    config = o.positional[0];
    o.positional.clear();
  }
  if (!config.empty()) {
    for (const Assignment& a : read_config(config, o.verb, o.warnings))
      o.offer(a.flag->name, a.texts, a.source, a.origin);
  }
  for (const auto& [name, text] : defaults) o.offer(name, {text}, Source::preset, "PaddlePaddle's defaults");
  for (const Assignment& a : environment) o.offer(a.flag->name, a.texts, a.source, a.origin);
  apply_command_line(o, split.assignments);
  take_positionals(o);
  o.config = std::move(config);
  check_required(o);
  resolve(o);
  return o;
}

}  // namespace

Options parse_command_line(int argc, const char* const* argv, const char* const* envp) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (!words.empty() && words[0] == "--explain") words[0] = "explain";  // accepts --explain ID, as rustc does
  if (auto help = asked_for_help(words)) return *help;
  Options o = parse_words(words, envp, {});
  if (has(flag_named("compat").verbs, o.verb) && o.has("compat"))
    refuse_call("--compat is about a whole command line", "write it on the command line itself");
  return o;
}

std::vector<Command> parse_commands(int argc, const char* const* argv, const char* const* envp) {
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  std::optional<CompatCommand> other;
  if (!asked_for_help(words)) other = compat_command(words);
  std::vector<Command> out;
  if (!other) {
    out.push_back({parse_command_line(argc, argv, envp), {}});
    return out;
  }
  for (const CompatStage& s : other->stages) {
    std::string line = cat("--", s.of, ": onnx-amp-finetune");
    for (const std::string& w : s.words) line += " " + shell_word(w);
    for (const auto& [name, text] : s.initial) line += cat(" --", name, "=", text);
    out.push_back({parse_words(s.words, envp, s.initial), std::move(line)});
  }
  std::vector<std::string>& first = out.front().options.warnings;
  first.insert(first.begin(), other->notes.begin(), other->notes.end());
  return out;
}

}  // namespace amp::cli
