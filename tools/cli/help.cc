// Formats --help from the flag table: groups with titles, wrapped text, defaults in brackets.
#include "tools/cli/help.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "run/version.h"
#include "tools/cli/flag_text.h"

namespace amp::cli {
namespace {

constexpr size_t kWidth = 100, kTextColumn = 34;
constexpr size_t kFew = 20;  // the short help of a verb with at most this many flags shows all of them

std::string metavar(const Flag& f) {
  if (f.type() == SettingType::boolean) return "";
  if (!f.alone.empty()) return cat("[", f.metavar, "]");
  if (f.type() != SettingType::choice) return std::string(f.metavar);
  const std::string joined = join(std::vector<std::string>(f.choices.begin(), f.choices.end()), "|");
  return joined.size() <= 22 ? joined : "KIND";
}

// Formats a value as users write it: 5e-5, not 5e-05.
std::string shown(const SettingValue& v) {
  std::string text = value_text(v);
  const size_t zero = text.find("e-0");
  if (std::holds_alternative<double>(v) && zero != std::string::npos) text.erase(zero + 2, 1);
  return text;
}

std::string default_note(const Flag& f, Verb verb) {
  if (has(f.required, verb)) return " [required]";
  const std::string text = shown(f.default_for(verb));
  return text.empty() ? "" : cat(" [", text, "]");
}

// Wraps text at kWidth. The text begins in the line of `head`; its other lines begin at column `indent`.
std::string wrapped(const std::string& head, const std::string& text, size_t indent) {
  std::string out = head, line_start;
  size_t column = head.size();
  if (!head.empty() && column + 1 > indent) {
    out += '\n';
    column = 0;
  }
  out.append(indent - column, ' ');
  column = indent;
  for (const std::string& word : split(text, ' ')) {
    if (column > indent && column + 1 + word.size() > kWidth) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out + '\n';
}

std::string first_sentence(const std::string& text) {
  const size_t end = text.find(". ");
  return end == std::string::npos ? text : text.substr(0, end + 1);
}

std::string flag_line(const Flag& f, const std::string& text) {
  const std::string value = metavar(f);
  return wrapped(cat("  --", f.name, value.empty() ? "" : " ", value), text, kTextColumn);
}

std::string short_flag_text(const Flag& f, Verb verb) {
  return flag_line(f, first_sentence(with_flags(f.help)) + default_note(f, verb));
}

std::string flag_text(const Flag& f, Verb verb) {
  std::string text = with_flags(f.help) + default_note(f, verb);
  if (metavar(f) == "KIND" && !f.choices.empty())
    text += cat(" KIND: ", join(std::vector<std::string>(f.choices.begin(), f.choices.end()), ", "), ".");
  std::string out = flag_line(f, text);
  const std::string allowed = f.type() == SettingType::boolean || f.type() == SettingType::choice ? "" : f.allowed();
  if (!allowed.empty()) out += wrapped("", "allowed: " + with_flags(allowed), kTextColumn);
  std::vector<std::string> spellings;
  for (const OtherName& a : f.other_names) {
    spellings.push_back(cat(a.name.size() == 1 ? "-" : "--", a.name, a.is_switch() ? cat(" (", a.when_true, ")") : ""));
  }
  if (!spellings.empty()) out += wrapped("", "also: " + join(spellings, ", "), kTextColumn);
  return out;
}

constexpr std::string_view kExamples =
    "\nExamples\n"
    "  onnx-amp-finetune model.onnx --use_fp16 --train train.csv --val dev.csv --text_columns text\n"
    "  onnx-amp-finetune model.onnx --lr 1e-4 --epochs 5 --train images/train --val images/val\n"
    "  onnx-amp-finetune eval run --val test.csv --text_columns text\n"
    "  onnx-amp-finetune check model.onnx\n\n"
    "onnx-amp-finetune train --help shows the common flags of training.\n";

std::string overview(bool all) {
  std::string out =
      "onnx-amp-finetune: fine-tune an ONNX model in mixed precision and write the same model back.\n\n"
      "Usage: onnx-amp-finetune [VERB] MODEL.onnx [flags]\n\nVerbs\n";
  for (const VerbInfo& v : verbs()) {
    const std::string usage = all && !v.usage.empty() ? cat(" ", v.usage) : "";
    out += wrapped(cat("  ", v.name, usage), std::string(v.what), all ? 50 : 13);
  }
  return out + (all ? "\nFlags of train (help VERB for the others)\n" : std::string(kExamples));
}

// Returns whether the short help shows a flag. Flags that are not settings are shown unless they belong to train,
// because they select what their verb does.
bool is_common(const Flag& f, Verb verb) {
  return f.common || has(f.required, verb) || (!f.setting && !has(f.verbs, Verb::train));
}

// Returns the flags of a verb in the order of the table, and whether some flags were left out.
std::pair<std::vector<const Flag*>, bool> flags_of(Verb verb, bool all) {
  std::vector<const Flag*> every, common;
  for (const Flag& f : flags()) {
    if (!has(f.verbs, verb)) continue;
    every.push_back(&f);
    if (is_common(f, verb)) common.push_back(&f);
  }
  const bool fewer = !all && every.size() > kFew && common.size() < every.size();
  return {fewer ? common : every, fewer};
}

std::string closing(std::optional<Verb> topic, bool fewer) {
  std::string out =
      "\n" +
      wrapped("",
              "Dashes may replace underscores. Values: --flag=VALUE or --flag VALUE; switches: --flag, --flag=true, "
              "--flag true or --no_flag. The same names are keys of --config FILE and, as ONNX_AMP_<FLAG>, environment "
              "variables. The command line overrides the environment, and the environment overrides the file.",
              0);
  const std::string verb = topic ? cat(info(*topic).name, " ") : "";
  return out + cat("onnx-amp-finetune ", verb, "--help_all shows ", fewer ? "all flags, " : "",
                   "other spellings and allowed values.\n");
}

}  // namespace

std::string version_text() { return program_version(); }

std::string help_text(std::optional<Verb> topic, bool all) {
  const Verb verb = topic.value_or(Verb::train);
  const VerbInfo& about = info(verb);
  const std::string word = verb == Verb::train ? "" : cat(" ", about.name),
                    rest = cat(about.usage.empty() ? "" : " ", about.usage);
  std::string out = topic ? cat("Usage: onnx-amp-finetune", word, rest, "\n  ", about.what, "\n") : overview(all);
  if (!topic && !all) return out + closing(topic, true);
  SettingGroup last = SettingGroup::count;
  const auto [shown, fewer] = flags_of(verb, all);
  for (const Flag* f : shown) {
    if (f->group != last) out += cat("\n", title(f->group), "\n");
    last = f->group;
    out += all ? flag_text(*f, verb) : short_flag_text(*f, verb);
  }
  return out + closing(topic, fewer);
}

}  // namespace amp::cli
