// Defines the table of verbs, and the table of flags, which is made from the library's settings and own_flags(). The
// parser, the help and the configuration files all read these tables.
#include "tools/cli/flags.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "run/settings/settings.h"

namespace amp::cli {

static constexpr std::array kVerbs{
    VerbInfo{Verb::train, Job::train, "train", "MODEL.onnx --train FILE [flags]",
             "fine-tune a model (the verb may be omitted)", 1},
    VerbInfo{Verb::sweep, Job::train, "sweep", "MODEL.onnx --sweep SPACE [flags of train]",
             "train once for each combination of settings, and compare the runs", 1},
    VerbInfo{Verb::eval, Job::evaluate, "eval", "MODEL.onnx --val FILE [flags]",
             "print loss and metrics on labeled data", 1},
    VerbInfo{Verb::predict, Job::predict, "predict", "MODEL.onnx --inputs FILE --out FILE",
             "write predictions for rows of text, images or tables, or every output for tensors", 1},
    VerbInfo{Verb::generate, Job::generate, "generate", "MODEL.onnx --prompt TEXT [flags]",
             "continue texts with a language model", 1},
    VerbInfo{Verb::check, Job::check, "check", "MODEL.onnx [--json]",
             "report whether the model will train: every node and parameter, with reasons", 1},
    VerbInfo{Verb::plan, Job::plan, "plan", "MODEL.onnx [--out plan.html] | --diff A.json B.json",
             "print the precision plan: the type of each node, and the rule that decided it", 1},
    VerbInfo{Verb::grad, Job::gradients, "grad", "MODEL.onnx --inputs FILE --loss KIND --out FILE",
             "write the gradients of one batch and print its loss", 1},
    VerbInfo{Verb::export_model, Job::write, "export", "RUN_FOLDER|MODEL.onnx --out FILE [flags]",
             "write the weights of a run, or a model file, as ONNX", 1},
    VerbInfo{Verb::tokenize, Job::tokenize, "tokenize", "--tokenizer FILE < lines",
             "print the token ids of each line of standard input, or the text of ids", 0},
    VerbInfo{Verb::create, Job::build, "create", "ARCHITECTURE --out FILE [--train FILE --target COLUMN]",
             "write a new model with random weights: bert, gpt2, llama, vit, resnet18, unet ...", 1},
    VerbInfo{Verb::convert, Job::convert, "convert", "FOLDER --out FILE | MODEL.onnx --out FOLDER",
             "convert a Hugging Face checkpoint to ONNX, or ONNX to a checkpoint", 1},
    VerbInfo{Verb::bench, Job::train, "bench", "MODEL.onnx [--train FILE] [flags of train]",
             "measure the time of each kernel in a training step, with GFLOP/s, share of the peak, GB/s", 1},
    VerbInfo{Verb::report, std::nullopt, "report", "RUN_FOLDER [RUN_FOLDER ...] --out page.html|metrics.csv",
             "write the curves, metrics and settings of runs as a page or CSV", 1000},
    VerbInfo{Verb::explain, std::nullopt, "explain", "[E_ID]",
             "explain an error and its remedy; without an id, list all errors", 1},
    VerbInfo{Verb::help, std::nullopt, "help", "[VERB]", "print this text, or the help of a verb", 1},
    VerbInfo{Verb::version, std::nullopt, "version", "", "print the version", 0},
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

const SettingValue& Flag::default_for(Verb v) const {
  const std::optional<Job> job = info(v).job;
  return setting && job ? setting->default_for(*job) : initial;
}

static VerbSet verbs_of(JobSet set) {
  VerbSet out = 0;
  for (const VerbInfo& i : kVerbs) {
    if (i.job && amp::has(set, *i.job)) out |= in(i.verb);
  }
  return out;
}

std::span<const Flag> flags() {
  static const std::vector<Flag> table = [] {
    std::vector<Flag> out;
    const std::vector<OwnFlag> own = own_flags();
    for (const Setting& s : settings()) {
      VerbSet required = verbs_of(s.required);
      if (s.name == "train") required &= ~in(Verb::bench);  // bench can make synthetic data instead
      required &= ~in(Verb::sweep);  // a sweep checks each run's command line instead, with the run's values
      out.push_back({s, &s, s.group, verbs_of(s.jobs), required});
      for (const OwnFlag& o : own) {
        if (o.behind == s.name) out.push_back({o.description, nullptr, s.group, o.verbs, o.required});
      }
    }
    if (out.size() != settings().size() + own.size()) bug("an own flag names a setting that does not exist");
    return out;
  }();
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
      for (const OtherName& a : f.other_names) m[a.name] = {&f, &a, false};
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
    if (it != spellings().end() && it->second.flag->type() == SettingType::boolean) {
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
