// Translates configuration files of Hugging Face's TrainingArguments and timm's train.py to settings of this program.
// Reader records the keys that were read; keys that are set but were not read are reported. The formulas for timm's
// learning rates and schedules are those of its train.py.
#include "tools/cli/other_trainers.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/number_text.h"
#include "base/text.h"
#include "run/settings/settings.h"

namespace amp::cli {
namespace {

using Json = nlohmann::ordered_json;

// Returns whether a value means "not set". Keys with such values are not reported as unused.
bool neutral(const Json& v) {
  return v.is_null() || v == false || v == "" || v == "no" || v == "none" ||
         ((v.is_array() || v.is_object()) && v.empty()) || (v.is_number() && v == 0);
}

// Reads a file by key and records the keys that were read.
class Reader {
 public:
  explicit Reader(const Json& file) : file_(file) {}

  // Returns null if the key does not exist.
  const Json& at(const std::string& key) {
    static const Json none;
    read_.insert(key);
    const auto it = file_.find(key);
    return it == file_.end() ? none : *it;
  }
  bool is(const std::string& key, std::string_view value) {
    const Json& v = at(key);
    return v.is_string() && v.get_ref<const std::string&>() == value;
  }
  bool yes(const std::string& key) { return at(key) == true; }
  double number(const std::string& key, double otherwise) {
    const Json& v = at(key);
    return v.is_number() ? v.get<double>() : otherwise;
  }
  std::string text(const std::string& key, std::string_view otherwise) {
    const Json& v = at(key);
    return v.is_string() ? v.get<std::string>() : std::string(otherwise);
  }
  void put(std::string_view ours, Json value) { out_[std::string(ours)] = std::move(value); }
  // Copies those of the keys that are set. This program's flags have the same names as these keys.
  void copy(std::initializer_list<const char*> keys) {
    for (const char* key : keys) {
      if (const Json& v = at(key); !v.is_null() && v != "") put(key, v);
    }
  }
  // Copies a number of steps. The other trainer also accepts a fraction of the run, but only whole numbers above 0 have
  // the same meaning in this program.
  void copy_steps(const std::string& key, std::string_view ours) {
    const double n = number(key, 0);
    if (n >= 1 && n == std::floor(n)) {
      put(ours, static_cast<int64_t>(n));
    } else {
      read_.erase(key);
    }
  }

  OtherTrainer done(std::string name) && {
    OtherTrainer o{std::move(name), std::move(out_)};
    for (const auto& [key, value] : file_.items()) {
      if (!read_.contains(key) && !neutral(value)) o.not_used.push_back(key);
    }
    return o;
  }

 private:
  const Json& file_;
  Json out_ = Json::object();
  std::set<std::string> read_;
};

// Translates Hugging Face's transformers.TrainingArguments, versions 4 and 5.
OtherTrainer hugging_face(const Json& file) {
  Reader r(file);
  r.copy({"output_dir",
          "learning_rate",
          "weight_decay",
          "adam_beta1",
          "adam_beta2",
          "adam_epsilon",
          "max_grad_norm",
          "num_train_epochs",
          "per_device_train_batch_size",
          "per_device_eval_batch_size",
          "gradient_accumulation_steps",
          "lr_scheduler_type",
          "lr_scheduler_kwargs",
          "seed",
          "label_smoothing_factor",
          "optim",
          "optim_args",
          "metric_for_best_model",
          "save_total_limit",
          "load_best_model_at_end",
          "group_by_length",
          "resume_from_checkpoint"});
  if (r.number("max_steps", -1) > 0) r.put("max_steps", r.at("max_steps"));
  // As in transformers, warmup_steps takes precedence over warmup_ratio.
  const double steps = r.number("warmup_steps", 0), ratio = r.number("warmup_ratio", 0);
  if (steps > 0 || ratio > 0) r.put("warmup_steps", steps > 0 ? steps : std::min(ratio, 1 - 1e-12));
  if (r.yes("fp16")) r.put("use_fp16", true);
  if (r.yes("bf16")) r.put("use_bf16", true);
  if (r.yes("use_cpu") || r.yes("no_cuda")) r.put("device", "cpu");
  if (r.is("eval_strategy", "steps") || r.is("evaluation_strategy", "steps")) {
    r.copy_steps(r.at("eval_steps").is_number() ? "eval_steps" : "logging_steps", "eval_steps");
  } else {
    r.at("eval_steps");
  }
  if (r.is("save_strategy", "steps")) {
    r.copy_steps("save_steps", "save_steps");
  } else {
    r.at("save_steps");
    for (const char* when : {"epoch", "no"}) {
      if (r.is("save_strategy", when)) r.put("save_strategy", when);
    }
  }
  if (r.is("logging_strategy", "steps")) {
    r.copy_steps("logging_steps", "logging_steps");
  } else {
    r.at("logging_steps");
  }
  if (r.number("dataloader_num_workers", 0) > 0) r.put("loading_threads", r.at("dataloader_num_workers"));
  if (const std::string how = r.text("train_sampling_strategy", "random"); how == "group_by_length") {
    r.put("group_by_length", true);
  } else if (how == "sequential") {
    r.put("shuffle", false);
  }
  return std::move(r).done("Hugging Face's TrainingArguments");
}

// Translates timm's optimizer, whose names are those of timm.optim.create_optimizer_v2.
void timm_optimizer(Reader& r) {
  std::string rule = r.text("opt", "sgd");
  Json settings = Json::object();
  bool nesterov = rule == "sgd" || rule == "nesterov" || rule == "nlars" || rule == "nlarc";
  if (rule == "larc" || rule == "nlarc" || rule == "lambc") settings["trust_clip"] = true;
  if (rule == "rmsprop" || rule == "rmsproptf") settings["alpha"] = 0.9;
  if (rule == "momentum" || rule == "nesterov") rule = "sgd";
  if (rule == "larc" || rule == "nlars" || rule == "nlarc") rule = "lars";
  if (rule == "lambc") rule = "lamb";
  if (rule == "rmsproptf") rule = "rmsprop_tf";
  r.put("optimizer", rule);
  if (r.at("opt_eps").is_number()) settings["eps"] = r.at("opt_eps");
  if (const Json& betas = r.at("opt_betas"); betas.is_array()) {
    for (size_t i = 0; i < betas.size(); ++i) settings["beta" + std::to_string(i + 1)] = betas[i];
  }
  if (const Json& more = r.at("opt_kwargs"); more.is_object()) settings.update(more);
  const double momentum = r.number("momentum", 0.9);
  if (optimizer_reads(rule, "momentum") && momentum > 0) {
    r.put("momentum", momentum);
    if (nesterov) r.put("nesterov", true);
  }
  if (!settings.empty()) r.put("optim_args", settings);
  r.copy({"weight_decay", "layer_decay", "clip_mode"});
  r.put("max_grad_norm", r.number("clip_grad", 0));  // an absent key means no clipping
}

// Sets the learning rate: lr, or else lr_base scaled to the batch size, as train.py does.
void timm_rate(Reader& r) {
  if (r.at("lr").is_number()) {
    for (const char* key : {"lr_base", "lr_base_size", "lr_base_scale"}) r.at(key);
    r.put("lr", r.at("lr"));
    return;
  }
  const double rows = r.number("batch_size", 128) * std::max(1.0, r.number("grad_accum_steps", 1));
  double times = rows / r.number("lr_base_size", 256);
  const std::string opt = r.text("opt", "sgd"), scale = r.text("lr_base_scale", "");
  const bool adaptive = opt.find("ada") != std::string::npos || opt.find("lamb") != std::string::npos;
  if (scale == "sqrt" || (scale.empty() && adaptive)) times = std::sqrt(times);
  r.put("lr", r.number("lr_base", 0.1) * times);
}

std::string list_text(const Json& values) {
  std::vector<std::string> parts;
  for (const Json& v : values) parts.push_back(number_text(v.get<double>()));
  return join(parts, ":");
}

// Translates the schedule, and the number of epochs that it implies (trainer/schedules/timm.h).
void timm_schedule(Reader& r) {
  const std::string kind = r.text("sched", "cosine");
  double epochs = r.number("epochs", 300);
  if (kind == "none") return r.put("lr_scheduler", "constant"), r.put("epochs", epochs);
  if (kind == "plateau") {
    r.put("lr_scheduler", "reduce_lr_on_plateau");
    r.put("lr_scheduler_kwargs", Json{{"factor", r.number("decay_rate", 0.1)},
                                      {"patience", r.number("patience_epochs", 10)},
                                      {"min_lr", r.number("min_lr", 0)}});
    return r.put("epochs", epochs);
  }
  const bool cycles = kind == "cosine" || kind == "poly" || kind == "tanh", stable = kind == "wsd" || kind == "rsqrt";
  if (!cycles && !stable && kind != "step" && kind != "multistep" && kind != "constant")
    fail(Exit::usage, "E_USAGE", cat("sched '", printable(kind), "' of timm is not built"),
         "timm's cosine, tanh, poly, step, multistep, wsd, rsqrt, plateau and constant are; docs/optimizers.md has "
         "more");
  Json set{{"warmup_epochs", r.number("warmup_epochs", 5)},
           {"warmup_lr", r.number("warmup_lr", 1e-5)},
           {"warmup_prefix", r.yes("warmup_prefix")},
           {"sched_on_updates", r.yes("sched_on_updates")}};
  if (cycles) {
    const double mul = r.number("lr_cycle_mul", 1), limit = r.number("lr_cycle_limit", 1);
    set.update(Json{{"cycle_epochs", epochs},
                    {"cooldown_epochs", r.number("cooldown_epochs", 0)},
                    {"min_lr", r.number("min_lr", 0)},
                    {"cycle_mul", mul},
                    {"cycle_decay", r.number("lr_cycle_decay", 0.5)},
                    {"cycle_limit", limit},
                    {"k_decay", r.number("lr_k_decay", 1)}});
    epochs = mul == 1 ? epochs * limit : std::floor(epochs * (std::pow(mul, limit) - 1) / (mul - 1));
    epochs += r.number("cooldown_epochs", 0);
  }
  if (stable) {
    set.update(Json{{"decay_epochs", r.number("decay_epochs", 0.2)},
                    {"cooldown_epochs", r.number("cooldown_epochs", 0)},
                    {"min_lr", r.number("min_lr", 0)}});
    if (r.at("decay_fn").is_string()) set["decay_fn"] = r.at("decay_fn");
    if (kind == "rsqrt" && r.at("stable_timescale").is_number()) set["stable_timescale"] = r.at("stable_timescale");
    epochs += r.number("cooldown_epochs", 0);
  }
  if (kind == "poly" || kind == "step" || kind == "multistep") set["decay_rate"] = r.number("decay_rate", 0.1);
  if (kind == "step") set["decay_epochs"] = r.number("decay_epochs", 90);
  if (kind == "constant") set.update(Json{{"decay_rate", 1}, {"decay_epochs", 1}});
  if (kind == "multistep" && r.at("decay_milestones").is_array())
    set["decay_milestones"] = list_text(r.at("decay_milestones"));
  if (r.yes("warmup_prefix")) epochs += r.number("warmup_epochs", 5);
  r.put("lr_scheduler", "timm_" + (kind == "constant" ? "step" : kind));
  r.put("lr_scheduler_kwargs", set);
  r.put("epochs", epochs);
  for (const char* key : {"decay_rate", "decay_epochs", "decay_milestones", "patience_epochs", "lr_cycle_mul",
                          "lr_cycle_decay", "lr_cycle_limit", "lr_k_decay", "min_lr", "decay_fn", "stable_timescale"})
    r.at(key);  // marks keys of other schedules as read
}

// Translates the arguments of timm's train.py.
OtherTrainer timm(const Json& file) {
  Reader r(file);
  timm_optimizer(r);
  timm_rate(r);
  timm_schedule(r);
  r.copy({"batch_size", "validation_batch_size", "grad_accum_steps", "seed", "log_interval", "checkpoint_hist",
          "num_classes", "eval_metric", "mixup", "cutmix", "mixup_prob", "mixup_switch_prob", "mixup_off_epoch"});
  if (r.yes("amp")) r.put(r.is("amp_dtype", "bfloat16") ? "use_bf16" : "use_fp16", true);
  r.at("amp_dtype");
  if (r.number("smoothing", 0) > 0) r.put("label_smoothing", r.at("smoothing"));
  if (r.yes("bce_loss")) r.put("bce_loss", true);
  if (r.number("drop", 0) > 0) r.put("drop", r.at("drop"));
  if (r.yes("model_ema")) r.put("ema_decay", r.number("model_ema_decay", 0.9998));
  if (r.yes("model_ema") && r.yes("model_ema_warmup")) r.put("ema_warmup", true);
  r.at("model_ema_decay"), r.at("model_ema_warmup");
  if (r.number("workers", 0) > 0) r.put("loading_threads", r.at("workers"));
  if (!r.text("output", "").empty()) r.put("output_dir", r.at("output"));
  if (r.is("device", "cpu")) r.put("device", "cpu");
  r.at("device");
  return std::move(r).done("timm's train.py");
}

}  // namespace

std::optional<OtherTrainer> of_other_trainer(const Json& file) {
  const auto all = [&](std::initializer_list<const char*> keys) {
    return std::all_of(keys.begin(), keys.end(), [&](const char* key) { return file.contains(key); });
  };
  if (all({"per_device_train_batch_size", "lr_scheduler_type", "logging_strategy", "save_strategy"}))
    return hugging_face(file);
  if (all({"opt", "sched", "warmup_lr", "smoothing"})) return timm(file);
  return std::nullopt;
}

}  // namespace amp::cli
