// Flags: optimizer; schedule and batches; evaluation and gates.
#include "run/settings.h"
#include "tools/cli/flag_words.h"
#include "tools/cli/values.h"

namespace amp::cli {

static std::vector<Text> metric_choices() {
  std::vector<Text> names{"auto"};
  for (const Text m : metric_names()) names.push_back(m);
  return names;
}

static std::vector<Text> optimizer_choices() {
  static const std::vector<std::string> names = optimizer_names();
  return {names.begin(), names.end()};
}

static std::vector<Text> schedule_choices() {
  static const std::vector<std::string> names = schedule_names();
  return {names.begin(), names.end()};
}

std::vector<Flag> optimizer_flags() {
  return {
      choice("optimizer", optimizer_choices(), "adamw", "Update rule; adamw decays weights apart from the gradient.")
          .same({{"adamw_torch", "adamw"}, {"adamw_torch_fused", "adamw"}, {"adamw_hf", "adamw"}, {"momentum", "sgd"}})
          .on(kTrain)
          .also({"optim", "opt"}),
      text("optim_args", "KEY=VALUE,...", "", "Settings of the update rule by name: docs/optimizers.md.").on(kTrain),
      real("lr", "5e-5", "Peak learning rate.").at_least(0).on(kTrain).also({"learning_rate", "l"}),
      real("momentum", "0", "Momentum of sgd and rmsprop.").at_least(0).below(1).on(kTrain),
      toggle("nesterov", "false", "Nesterov momentum in sgd.").on(kTrain),
      real("adam_beta1", "0.9", "Decay of the first moment.").at_least(0).below(1).on(kTrain).also({"beta1"}),
      real("adam_beta2", "0.999", "Decay of the second moment.").at_least(0).below(1).on(kTrain).also({"beta2"}),
      real("adam_epsilon", "1e-8", "Added to the root of the second moment.")
          .above(0)
          .on(kTrain)
          .also({"epsilon", "adam_eps", "opt_eps"}),
      real("weight_decay", "0", "Weight decay.").at_least(0).on(kTrain),
      choice("decay_exclude", {"auto", "none"}, "auto", "auto: biases and normalisation weights are not decayed.")
          .on(kTrain),
      real("max_grad_norm", "1", "Clip gradients to this (after unscaling); 0: no clipping.")
          .at_least(0)
          .on(kTrain)
          .also({"clip_grad", "clip_grad_norm"}),
      choice("clip_mode", {"norm", "inf", "value"}, "norm", "What is clipped: 2-norm, largest element, each element.")
          .on(kTrain),
      real("ema_decay", "0", "Decay of the moving average of the weights; 0: none.")
          .at_least(0)
          .below(1)
          .on(kTrain)
          .also({"model_ema_decay", Alias("model_ema", "0.9998", "0")}),
  };
}

std::vector<Flag> schedule_flags() {
  return {
      real("epochs", "3", "Passes over the training data; may be fractional.")
          .at_least(0)
          .on(kTrain)
          .also({"num_train_epochs", "num_epochs", "epoch"}),
      whole("max_steps", "-1", "Attempted optimizer steps, skipped ones included; -1: by --epochs.")
          .at_least(-1)
          .on(kTrain),
      whole("batch_size", "8", "Rows of a micro-batch.")
          .at_least(1)
          .on(kFeed)
          .also({"per_device_train_batch_size", "train_batch_size", "b"}),
      whole("gradient_accumulation_steps", "1", "Micro-batches of one optimizer step.")
          .at_least(1)
          .on(kTrain)
          .also({"grad_accum_steps", "accumulation_steps"}),
      choice("lr_scheduler", schedule_choices(), "linear", "How the learning rate moves: docs/optimizers.md.")
          .same({{"linear_warmup_decay", "linear"}, {"onecycle", "one_cycle"}, {"wsd", "warmup_stable_decay"}})
          .on(kTrain)
          .also({"lr_scheduler_type", "sched"}),
      text("lr_scheduler_kwargs", "KEY=VALUE,...", "", "Settings of the schedule by name: docs/optimizers.md.")
          .on(kTrain),
      real("warmup_steps", "0", "Steps of rising learning rate: a whole number, or a fraction (below 1) of all steps.")
          .at_least(0)
          .on(kTrain)
          .also({Alias::fraction_of_one("warmup_ratio"), Alias::fraction_of_one("warmup_proportion")}),
  };
}

std::vector<Flag> evaluation_flags() {
  return {
      whole("eval_batch_size", "0", "Rows of an evaluation batch; 0: --batch_size.")
          .at_least(0)
          .on(kData)
          .also({"per_device_eval_batch_size", "validation_batch_size", "vb"}),
      whole("eval_steps", "0", "Evaluate every N steps as well as at the end of each epoch; 0: only there.")
          .at_least(0)
          .on(kTrain)
          .also({"validation_steps"}),
      choice("metric_for_best_model", metric_choices(), "auto", "What makes a model the best one; auto: by the task.")
          .same({{"eval_accuracy", "accuracy"},
                 {"eval_loss", "loss"},
                 {"f1", "macro_f1"},
                 {"eval_f1", "macro_f1"},
                 {"top1", "accuracy"}})
          .on(kTrain)
          .also({"eval_metric", "metric_name"}),
      whole("early_stopping_patience", "0", "Stop after so many evaluations without a better one; 0: never.")
          .at_least(0)
          .on(kTrain),
      list("require", "METRIC>=X",
           "Quality gate on the final metrics: exit 12 when missed, e.g. accuracy>=0.85 (repeatable).")
          .checked(normal_gate,
                   "a metric of the task (loss, accuracy, macro_f1, micro_f1, exact_match, miou, pearson ...), then "
                   ">=, >, <= or <, then a number")
          .on(in(Verb::train, Verb::eval)),
  };
}

}  // namespace amp::cli
