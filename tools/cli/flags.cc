#include "tools/cli/flags.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "tools/cli/values.h"

namespace amp::cli {

static constexpr std::array kVerbs{
    VerbInfo{Verb::train, "train", "MODEL.onnx --train FILE [flags]", "fine-tune a model (the word may be left out)",
             1},
    VerbInfo{Verb::eval, "eval", "MODEL.onnx --val FILE [flags]", "loss and metrics of a model on labelled data", 1},
    VerbInfo{Verb::predict, "predict", "MODEL.onnx --inputs FILE --out FILE", "write every graph output under its name",
             1},
    VerbInfo{Verb::check, "check", "MODEL.onnx [--json]", "will it train? every node, every parameter, every reason",
             1},
    VerbInfo{Verb::plan, "plan", "MODEL.onnx [--out plan.html] | --diff A.json B.json",
             "the precision plan: each node's type and the rule behind it", 1},
    VerbInfo{Verb::grad, "grad", "MODEL.onnx --inputs FILE --loss KIND --out FILE", "loss and gradients of one batch",
             1},
    VerbInfo{Verb::export_model, "export", "RUN_FOLDER|MODEL.onnx --out FILE [flags]",
             "the weights of a run's checkpoints, or a model file, as ONNX", 1},
    VerbInfo{Verb::tokenize, "tokenize", "--tokenizer FILE < lines",
             "token ids of each line of standard input, or its text", 0},
    VerbInfo{Verb::help, "help", "[VERB]", "this text, or a verb's", 1},
    VerbInfo{Verb::version, "version", "", "the version", 0},
};

std::span<const VerbInfo> verbs() { return kVerbs; }

const VerbInfo& info(Verb v) {
  for (const VerbInfo& i : kVerbs) {
    if (i.verb == v) return i;
  }
  bug("verb without description");
}

const VerbInfo* find_verb(std::string_view name) {
  for (const VerbInfo& i : kVerbs) {
    if (i.name == name) return &i;
  }
  return nullptr;
}

std::string_view title(Group g) {
  switch (g) {
    case Group::model:
      return "Model, head and loss";
    case Group::data:
      return "Data";
    case Group::precision:
      return "Precision";
    case Group::scaling:
      return "Loss scaling";
    case Group::optimizer:
      return "Optimizer";
    case Group::schedule:
      return "Schedule and batches";
    case Group::evaluation:
      return "Evaluation and gates";
    case Group::checkpoints:
      return "Output and checkpoints";
    case Group::exporting:
      return "Export";
    case Group::run:
      return "Running";
    case Group::count:
      break;
  }
  bug("group without title");
}

std::string_view Flag::default_for(Verb v) const {
  for (const auto& [verb, text] : other_defaults) {
    if (verb == v) return text;
  }
  return fallback;
}

std::string Flag::allowed() const {
  if (normalise) return std::string(expected);
  if (!choices.empty()) {
    const std::vector<std::string> names(choices.begin(), choices.end());
    return "one of " + join(names, ", ");
  }
  if (type == Type::boolean) return "true or false";
  std::vector<std::string> parts;
  const bool has_low = low > -std::numeric_limits<double>::infinity();
  const bool has_high = high < std::numeric_limits<double>::infinity();
  if (has_low) parts.push_back((low_open ? "above " : "at least ") + number_text(low));
  if (has_high) parts.push_back((high_open ? "below " : "at most ") + number_text(high));
  return join(parts, " and ");
}

std::span<const Flag> flags() {
  static const std::vector<Flag> table = make_flag_table();
  return table;
}

std::string snake_case(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

static const std::map<std::string_view, Found>& spellings() {
  static const auto index = [] {
    std::map<std::string_view, Found> m;
    for (const Flag& f : flags()) {
      m[f.name] = {&f, nullptr, false};
      for (const Alias& a : f.aliases) m[a.name] = {&f, &a, false};
    }
    return m;
  }();
  return index;
}

std::optional<Found> find_flag(std::string_view name) {
  const std::string key = snake_case(name);
  if (const auto it = spellings().find(key); it != spellings().end()) return it->second;
  if (key.starts_with("no_")) {
    const auto it = spellings().find(std::string_view(key).substr(3));
    if (it != spellings().end() && it->second.flag->type == Type::boolean) {
      return Found{it->second.flag, it->second.alias, true};
    }
  }
  return std::nullopt;
}

const Flag& flag_named(std::string_view name) {
  const auto it = spellings().find(name);
  if (it == spellings().end() || it->second.alias) bug(cat("no flag is called '", name, "'"));
  return *it->second.flag;
}

std::string nearest_flag(std::string_view name, Verb verb) {
  const std::string key = snake_case(name);
  std::vector<std::string> own, all;
  for (const auto& [spelling, found] : spellings()) {
    if (spelling.size() < 2) continue;
    all.emplace_back(spelling);
    if (has(found.flag->verbs, verb)) own.emplace_back(spelling);
  }
  const std::string best = nearest(key, own);
  return best.empty() ? nearest(key, all) : best;
}

}  // namespace amp::cli
