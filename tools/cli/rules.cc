// Checks the rules between flags: refuses contradictions, and derives values from other flags.
#include <cmath>

#include "base/error.h"
#include "base/number_text.h"
#include "base/text.h"
#include "run/settings/settings.h"
#include "tools/cli/options.h"

namespace amp::cli {
namespace {

std::string written(const Options& o, std::string_view name) {
  const SettingValue& v = o.value(name);
  const std::string value = std::get_if<bool>(&v) && std::get<bool>(v) ? "" : " " + value_text(v);
  return cat("--", name, value, " (", name_of(o.source(name)), ")");
}

[[noreturn]] void contradict(const Options& o, std::string_view a, std::string_view b, std::string_view why,
                             std::string hint) {
  fail(Exit::usage, "E_USAGE", cat(written(o, a), " and ", written(o, b), " contradict: ", why), std::move(hint));
}

// Resolves two exclusive switches that are both on. The switch whose source has higher precedence stays on, with a
// warning. Throws E_USAGE if both are from the same source.
void one_of(Options& o, std::string_view a, std::string_view b, std::string_view why) {
  if (!o.flag(a) || !o.flag(b)) return;
  if (o.source(a) == o.source(b)) contradict(o, a, b, why, "give one of them");
  const std::string_view weaker = o.source(a) < o.source(b) ? a : b;
  const std::string_view stronger = weaker == a ? b : a;
  o.warnings.push_back(cat(written(o, weaker), " is set aside: ", written(o, stronger), " excludes it"));
  o.offer(weaker, {"false"}, o.source(stronger), o.origin(stronger));
}

void derive(Options& o, std::string_view name, std::string text) {
  o.offer(name, {std::move(text)}, Source::derived, "");
}

void precision_rules(Options& o) {
  one_of(o, "use_fp16", "use_bf16", "there is one 16-bit type in a run");
  if (!has(flag_named("dtype").verbs, o.verb)) return;
  for (const auto& [use, type] : {std::pair{"use_fp16", "fp16"}, std::pair{"use_bf16", "bf16"}}) {
    if (!o.flag(use)) continue;
    if (!o.was_set("dtype")) {
      derive(o, "dtype", type);
    } else if (o.str("dtype") != type) {
      if (o.source(use) == o.source("dtype"))
        contradict(o, use, "dtype", "two types to compute in", "give one of them");
      if (o.source(use) > o.source("dtype")) {
        o.offer("dtype", {type}, o.source(use), o.origin(use));
      } else {
        o.offer(use, {"false"}, o.source("dtype"), o.origin("dtype"));
      }
    }
  }
}

void scale_rules(Options& o) {
  const double low = o.num("min_loss_scale"), high = o.num("max_loss_scale"), first = o.num("init_loss_scale");
  if (low > high) contradict(o, "min_loss_scale", "max_loss_scale", "the floor is above the ceiling", "swap them");
  if (first >= low && first <= high) return;
  const std::string_view bound = first < low ? "min_loss_scale" : "max_loss_scale";
  if (o.was_set("init_loss_scale")) {
    contradict(o, "init_loss_scale", bound, "the first scale is out of bounds", "choose it between floor and ceiling");
  }
  derive(o, "init_loss_scale", number_text(o.num(bound)));
}

void training_rules(Options& o) {
  if (o.str("resume") != "none" && o.flag("overwrite")) {
    contradict(o, "resume", "overwrite", "one continues the run in --output_dir, the other discards it",
               "give one of them");
  }
  const bool descent = o.str("optimizer") == "sgd" || o.str("optimizer") == "lars";
  if (o.flag("nesterov") && (!descent || o.num("momentum") == 0)) {
    contradict(o, "nesterov", !descent ? "optimizer" : "momentum",
               "Nesterov momentum needs sgd or lars with a momentum", "add --optimizer sgd --momentum 0.9");
  }
  for (const std::string_view name : {"momentum", "adam_beta1", "adam_beta2", "adam_epsilon"}) {
    if (o.source(name) != Source::command_line || optimizer_reads(o.str("optimizer"), name)) continue;
    o.warnings.push_back(
        cat("--", name, " has no effect with --optimizer ", o.str("optimizer"), ": --optim_args sets what that has"));
  }
  const double warmup = o.num("warmup_steps");
  if (warmup >= 1 && warmup != std::floor(warmup)) {
    fail(Exit::usage, "E_USAGE",
         cat("--warmup_steps ", number_text(warmup), ": out of range; allowed: a whole number, or a fraction below 1"));
  }
  const std::vector<std::string>& decays = o.list("ema_decay");
  const bool averages = std::any_of(decays.begin(), decays.end(), [](const std::string& d) { return d != "0"; });
  if (o.str("export_weights").starts_with("ema") && !averages && o.num("swa_start") < 0) {
    contradict(o, "export_weights", "ema_decay", "there is no moving average to export", "add --ema_decay 0.999");
  }
  if (o.num("early_stopping_threshold") > 0 && o.integer("early_stopping_patience") == 0)
    o.warnings.emplace_back("--early_stopping_threshold has no effect without --early_stopping_patience N");
  if (o.has("val") && o.num("val_split") > 0)
    contradict(o, "val", "val_split", "both select the validation data", "give one of them");
  if (o.has("val") || o.num("val_split") > 0) return;
  for (const std::string_view name : {"export_weights", "early_stopping_patience", "require", "eval_steps",
                                      "eval_group_by", "metric_for_best_model"}) {
    const bool wants = name == "export_weights"          ? o.str(name) == "best"
                       : name == "require"               ? o.has(name)
                       : name == "eval_group_by"         ? o.has(name)
                       : name == "metric_for_best_model" ? o.str(name) != "auto"
                                                         : o.integer(name) > 0;
    if (wants) fail(Exit::usage, "E_USAGE", cat(written(o, name), " needs validation data"), "add --val FILE");
  }
}

}  // namespace

void resolve(Options& o) {
  one_of(o, "quiet", "verbose", "less or more output?");
  precision_rules(o);
  if (o.verb == Verb::train || o.verb == Verb::bench) {
    scale_rules(o);
    training_rules(o);
  }
  if (o.verb == Verb::eval && !o.has("val") && !o.has("inputs")) {
    fail(Exit::usage, "E_USAGE", "'eval' has no data", "add --val FILE, or --inputs FILE with tensors");
  }
  if (o.verb == Verb::eval && o.has("val") && o.has("inputs")) {
    contradict(o, "val", "inputs", "both name the data", "give one of them");
  }
  // With --in_tokens the number of rows of a batch is not known before the data is read.
  if ((o.verb == Verb::train || o.verb == Verb::bench) && o.flag("in_tokens")) return;
  const std::string rows = std::to_string(o.integer("batch_size"));
  if (!o.was_set("eval_batch_size")) {
    derive(o, "eval_batch_size", rows);
  } else if (o.integer("eval_batch_size") == 0) {
    o.offer("eval_batch_size", {rows}, o.source("eval_batch_size"), o.origin("eval_batch_size"));
  }
}

}  // namespace amp::cli
