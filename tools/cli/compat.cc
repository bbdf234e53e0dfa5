// Translates the command line of PaddlePaddle's BERT/run_classifier.py. kPaddle is the table of its flags. Translation
// makes up to three commands of this program: convert, train, eval. The command line may also have flags of this
// program, which are passed to the commands that accept them.
#include "tools/cli/compat.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/error.h"
#include "base/fs.h"
#include "base/number_text.h"
#include "base/text.h"
#include "tools/cli/flags.h"

namespace amp::cli {
namespace {

constexpr std::array kPaddle{
    ForeignFlag{"task_name"},
    ForeignFlag{"data_dir"},
    ForeignFlag{"do_train", true},
    ForeignFlag{"do_val", true},
    ForeignFlag{"do_test", true},
    ForeignFlag{"init_pretraining_params"},
    ForeignFlag{"init_checkpoint"},
    ForeignFlag{"checkpoints", false, "output_dir", "checkpoints"},
    ForeignFlag{"epoch", false, "epochs", "3"},
    ForeignFlag{"learning_rate", false, "lr", "5e-5"},
    ForeignFlag{"lr_scheduler", false, "lr_scheduler", "linear"},
    ForeignFlag{"weight_decay", false, "weight_decay", "0.01"},
    ForeignFlag{"warmup_proportion", false, "warmup_steps", "0.1"},
    ForeignFlag{"save_steps", false, "save_steps", "10000"},
    ForeignFlag{"validation_steps", false, "eval_steps", "1000"},
    ForeignFlag{"use_fp16", true, "use_fp16"},
    ForeignFlag{"loss_scaling", false, "loss_scale"},
    ForeignFlag{"skip_steps", false, "logging_steps", "10"},
    ForeignFlag{"verbose", true, "verbose"},
    ForeignFlag{"vocab_path", false, "vocab"},
    ForeignFlag{"max_seq_len", false, "max_seq_len", "512"},
    ForeignFlag{"batch_size", false, "batch_size", "32"},
    ForeignFlag{"in_tokens", true, "in_tokens"},
    ForeignFlag{"do_lower_case", true, "lower_case"},
    ForeignFlag{"random_seed", false, "seed", "0"},
    ForeignFlag{"shuffle", true, "shuffle"},
    ForeignFlag{"use_cuda", true, "device"},
    ForeignFlag{"bert_config_path", false, {}, {}, "the model's file contains its architecture"},
    ForeignFlag{"use_fast_executor", true, {}, {}, "there is one executor"},
    ForeignFlag{"num_iteration_per_drop_scope", false, {}, {}, "no memory is allocated while steps run"},
};

[[noreturn]] void usage(std::string fact, std::string hint) {
  fail(Exit::usage, "E_USAGE", std::move(fact), std::move(hint));
}

std::string dashed(std::string_view name) { return cat("--", name); }

// A parsed command line: flags of the other trainer (theirs), and flags of this program (own).
struct Given {
  std::map<std::string, std::string, std::less<>> theirs;
  struct Own {
    const Flag* flag;
    std::string word;
  };
  std::vector<Own> own;
  std::string model;  // the positional argument

  bool has(std::string_view name) const { return theirs.find(name) != theirs.end(); }
  std::string text(std::string_view name) const { return has(name) ? theirs.find(name)->second : std::string(); }
  bool yes(std::string_view name, bool otherwise) const { return has(name) ? text(name) == "true" : otherwise; }
};

const ForeignFlag* foreign_flag(std::string_view name) {
  const auto f = std::find_if(kPaddle.begin(), kPaddle.end(), [&](const ForeignFlag& x) { return x.name == name; });
  return f == kPaddle.end() ? nullptr : &*f;
}

[[noreturn]] void unknown(const std::string& name) {
  std::vector<std::string> names;
  for (const ForeignFlag& f : kPaddle) names.emplace_back(f.name);
  std::string near = nearest(name, names);
  if (near.empty()) near = nearest_flag(name, Verb::train);
  usage(cat("unknown flag ", dashed(printable(name))),
        near.empty() ? "it is neither one of PaddlePaddle's run_classifier.py nor one of ours (--help)"
                     : cat("did you mean ", dashed(near), "?"));
}

// Returns the value of the flag at words[i]: after "=", or the next word. A switch without a value is true.
std::string value_at(std::span<const std::string> words, size_t& i, bool truth, const std::string& name) {
  const size_t equals = words[i].find('=');
  if (equals != std::string::npos) return words[i].substr(equals + 1);
  const bool more = i + 1 < words.size() && !words[i + 1].starts_with("--");
  if (more) return words[++i];
  if (truth) return "true";
  usage(cat(dashed(name), " needs a value"), cat("write ", dashed(name), "=VALUE"));
}

std::string truth_of(const std::string& name, const std::string& text) {
  const auto truth = parse_bool(text);
  if (!truth) usage(cat(dashed(name), " ", printable(text), ": not a truth value"), "write true or false");
  return *truth ? "true" : "false";
}

void take_flag(Given& g, std::span<const std::string> words, size_t& i) {
  const std::string word = words[i].substr(0, words[i].find('='));
  const std::string name = snake_case(word.substr(std::min(word.find_first_not_of('-'), word.size())));
  if (const ForeignFlag* f = foreign_flag(name)) {
    const std::string text = value_at(words, i, f->truth, name);
    g.theirs[name] = f->truth ? truth_of(name, text) : text;
    return;
  }
  const auto found = find_flag(name);
  if (!found) unknown(name);
  const bool bare = found->takes_switch() && words[i].find('=') == std::string::npos &&
                    (i + 1 >= words.size() || !parse_bool(words[i + 1]));
  const std::string text = bare ? "true" : value_at(words, i, false, name);
  if (found->flag->name == "compat") {
    parse_value(*found->flag, std::vector<std::string>{text});
  } else {
    g.own.push_back({found->flag, cat(word, "=", text)});
  }
}

Given read_words(std::span<const std::string> words) {
  Given g;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with("-") && words[i].size() > 1) {
      take_flag(g, words, i);
    } else if (g.model.empty()) {
      g.model = words[i];
    } else {
      usage(cat("unexpected word '", printable(words[i]), "'"), "a flag is followed by one value");
    }
  }
  return g;
}

// Returns the value of this program's flag for the value `text` of the other trainer's flag `name`.
std::string our_value(const std::string& name, const std::string& text) {
  if (name == "use_cuda") return text == "true" ? "auto" : "cpu";
  if (name != "lr_scheduler") return text;
  if (text == "linear_warmup_decay") return "linear";
  return text == "noam_decay" ? "noam" : text;
}

struct Translation {
  Given given;
  bool train, val, test;
  CompatCommand out{};

  std::string output() const {
    return given.has("checkpoints") ? given.text("checkpoints") : std::string("checkpoints");
  }
  std::string start();
  CompatStage stage(const char* of, Verb verb, std::vector<std::string> words) const;
  void add_training(const std::string& model);
  void add_evaluation(const char* of, TaskPart part, const std::string& model, const std::string& file);
  std::optional<TaskFiles> files(TaskPart part) const {
    return paddle_files(lower_case(given.text("task_name")), given.text("data_dir"), part);
  }
  // Returns the number of rows of an evaluation batch: with --in_tokens, as many rows of max_seq_len tokens as fit into
  // batch_size.
  std::string evaluation_rows() const {
    const auto tokens = parse_integer(given.text("batch_size")), length = parse_integer(given.text("max_seq_len"));
    return std::to_string(std::max<int64_t>(1, tokens.value_or(32) / std::max<int64_t>(1, length.value_or(512))));
  }
};

// Returns the model file from which training starts. If a checkpoint's folder is given, adds a command that converts
// it.
std::string Translation::start() {
  const bool both = given.has("init_checkpoint") && given.has("init_pretraining_params");
  if (both) out.notes.push_back(cat(dashed("init_checkpoint"), " counts, ", dashed("init_pretraining_params"), " not"));
  const std::string name = given.has("init_checkpoint") ? "init_checkpoint" : "init_pretraining_params";
  const std::string path = given.has(name) ? given.text(name) : given.model;
  if (path.empty())
    usage("no weights to start from",
          cat("give ", dashed("init_pretraining_params"), " MODEL.onnx, or the folder of a Hugging Face checkpoint"));
  if (!is_dir(path)) return path;
  if (path_exists(path + "/model.onnx")) return path + "/model.onnx";
  if (!path_exists(path + "/config.json"))
    usage(
        cat(dashed(name), " ", printable(path), ": a folder without model.onnx or config.json"),
        "PaddlePaddle's own parameters are not read: give an ONNX file, or the folder of a Hugging Face checkpoint of "
        "the same model (config.json, model.safetensors)");
  const std::string converted = output() + ".start/model.onnx";
  out.stages.push_back({name, {"convert", path, "--out", converted, "--model_head", "sequence_classification"}, {}});
  return converted;
}

// Returns a command: `words`, followed by those of the given flags that the command's verb accepts. of: the flag that
// requests the command.
CompatStage Translation::stage(const char* of, Verb verb, std::vector<std::string> words) const {
  CompatStage s{of, std::move(words), {}};
  const bool after_training = train && verb == Verb::eval;  // then the exported file is evaluated in its own precision
  for (const ForeignFlag& f : kPaddle) {
    if (f.ours.empty() || !amp::cli::has(flag_named(f.ours).verbs, verb)) continue;
    if ((f.ours == "eval_steps" && !val) || (f.ours == "use_fp16" && after_training)) continue;
    const std::string name(f.name), ours(f.ours);
    if (verb == Verb::eval && name == "batch_size" && given.yes("in_tokens", false)) {
      s.words.push_back("--batch_size=" + evaluation_rows());
    } else if (given.has(name)) {
      const auto spelled = find_flag(name);
      const bool known = spelled && spelled->flag->name == ours && !(spelled->alias && spelled->alias->is_switch());
      s.words.push_back(cat(dashed(known ? name : ours), "=", our_value(name, given.text(name))));
    } else if (!f.initial.empty()) {
      s.initial.emplace_back(ours, f.initial);
    }
  }
  for (const Given::Own& o : given.own) {
    if (after_training && one_of(o.flag->name, {"use_fp16", "use_bf16"})) continue;
    const bool elsewhere = amp::cli::has(o.flag->verbs, train ? Verb::train : Verb::eval);
    if (amp::cli::has(o.flag->verbs, verb) || !elsewhere) s.words.push_back(o.word);
  }
  return s;
}

void add_columns(std::vector<std::string>& words, const std::string& prefix, const TaskFiles& f) {
  for (const std::string& c : f.text_columns) words.push_back(cat(dashed(prefix), "text_columns=", c));
  words.push_back(cat(dashed(prefix), "label_column=", f.label_column));
}

void Translation::add_training(const std::string& model) {
  const TaskFiles data = *files(TaskPart::train);
  std::vector<std::string> words = {"train", model, "--train=" + data.path, "--task=classification"};
  add_columns(words, "", data);
  if (lower_case(given.text("task_name")) == "xnli") words.emplace_back("--label_map=contradictory=contradiction");
  if (!out.stages.empty())  // the checkpoint's classifier has other labels or random weights
    words.push_back(cat("--num_labels=", paddle_classes(lower_case(given.text("task_name")))));
  if (val) {
    const TaskFiles dev = *files(TaskPart::dev);
    words.push_back("--val=" + dev.path);
    if (dev.text_columns != data.text_columns || dev.label_column != data.label_column) add_columns(words, "val_", dev);
    if (!dev.group_by.empty()) words.push_back("--eval_group_by=" + dev.group_by);
  }
  out.stages.push_back(stage("do_train", Verb::train, std::move(words)));
}

void Translation::add_evaluation(const char* of, TaskPart part, const std::string& model, const std::string& file) {
  const std::optional<TaskFiles> data = files(part);
  if (!data) {
    out.notes.push_back(cat(dashed(of), " is left out: the labels of this task's test set are not public"));
    return;
  }
  std::vector<std::string> words = {"eval", model, "--val=" + data->path, "--task=classification"};
  add_columns(words, "", *data);
  if (!data->group_by.empty()) words.push_back("--eval_group_by=" + data->group_by);
  if (!file.empty()) words.push_back("--out=" + file);
  out.stages.push_back(stage(of, Verb::eval, std::move(words)));
}

CompatCommand paddle(Given given) {
  const bool train = given.yes("do_train", true), val = given.yes("do_val", true), test = given.yes("do_test", true);
  Translation t{std::move(given), train, val, test};
  for (const ForeignFlag& f : kPaddle) {
    if (!f.no_meaning.empty() && t.given.has(f.name))
      t.out.notes.push_back(cat(dashed(f.name), " has no effect here: ", f.no_meaning));
  }
  for (const char* name : {"task_name", "data_dir"}) {
    if (t.given.text(name).empty())
      usage(cat(dashed(name), " is missing"), "PaddlePaddle's run_classifier.py needs it, and so does --compat paddle");
  }
  check_paddle_task(lower_case(t.given.text("task_name")));
  if (!train && !val && !test)
    usage("the command line requests nothing",
          cat("one of ", dashed("do_train"), ", ", dashed("do_val"), " and ", dashed("do_test"), " must be true"));
  const std::string model = t.start(), trained = t.output() + "/model.onnx";
  if (train) t.add_training(model);
  if (!train && val) t.add_evaluation("do_val", TaskPart::dev, model, {});
  if (test)
    t.add_evaluation("do_test", TaskPart::test, train ? trained : model,
                     train ? t.output() + "/test_metrics.json" : std::string());
  if (t.out.stages.empty()) usage("nothing can be done", join(t.out.notes, "; "));
  return std::move(t.out);
}

}  // namespace

std::span<const ForeignFlag> paddle_flags() { return kPaddle; }

std::optional<CompatCommand> compat_command(std::span<const std::string> words) {
  const bool asked = std::any_of(words.begin(), words.end(),
                                 [](const std::string& w) { return w == "--compat" || w.starts_with("--compat="); });
  if (!asked) return std::nullopt;
  return paddle(read_words(words));
}

}  // namespace amp::cli
