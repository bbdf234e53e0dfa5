// Settings of the optimizer, of schedule and batches, and of evaluation and gates. may_change() marks what a resumed
// run may set differently.
#include "run/settings/rows/rows.h"
#include "run/spec/distribution.h"
#include "run/spec/evaluation.h"
#include "run/spec/optimization.h"
#include "run/spec/schedule.h"
#include "run/spec/text.h"

namespace amp {

std::vector<Setting> optimizer_settings() {
  return {
      setting("optimizer", &OptimizationSpec::optimizer, "Optimizer; adamw has decoupled weight decay.")
          .one_of(optimizer_choices())
          .same({{"adamw_torch", "adamw"},
                 {"adamw_torch_fused", "adamw"},
                 {"adamw_hf", "adamw"},
                 {"momentum", "sgd"},
                 {"rmsproptf", "rmsprop_tf"}})
          .read_by(kTrain)
          .also({"optim", "opt"}),
      setting("optim_args", &OptimizationSpec::optim_args, "Settings of the optimizer by name (docs/optimizers.md).")
          .shown_as("KEY=VALUE,...")
          .as_json()
          .read_by(kTrain),
      setting("lr", &OptimizationSpec::lr, "Peak learning rate.")
          .at_least(0)
          .read_by(kTrain)
          .also({"learning_rate", "l"}),
      setting(
          "lr_base_scale", &OptimizationSpec::lr_base_scale,
          "Scale `lr` by (samples per step of all ranks / `lr_base_size`), or by its square root (docs/scaling.md).")
          .one_of({"none", "linear", "sqrt"})
          .read_by(kTrain),
      setting("lr_base_size", &OptimizationSpec::lr_base_size,
              "Samples per step that `lr` was chosen for; see `lr_base_scale`.")
          .at_least(1)
          .read_by(kTrain),
      setting("momentum", &OptimizationSpec::momentum, "Momentum of sgd, lars and rmsprop.")
          .at_least(0)
          .below(1)
          .read_by(kTrain),
      setting("nesterov", &OptimizationSpec::nesterov, "Nesterov momentum in sgd and lars.").read_by(kTrain),
      setting("adam_beta1", &OptimizationSpec::adam_beta1, "Decay of the first moment.")
          .at_least(0)
          .below(1)
          .read_by(kTrain)
          .also({"beta1"}),
      setting("adam_beta2", &OptimizationSpec::adam_beta2, "Decay of the second moment.")
          .at_least(0)
          .below(1)
          .read_by(kTrain)
          .also({"beta2"}),
      setting("adam_epsilon", &OptimizationSpec::adam_epsilon, "Added to the root of the second moment.")
          .above(0)
          .read_by(kTrain)
          .also({"epsilon", "adam_eps", "opt_eps"}),
      setting("weight_decay", &OptimizationSpec::weight_decay, "Weight decay.").at_least(0).read_by(kTrain),
      setting("decay_exclude", &OptimizationSpec::decay_exclude,
              "auto: no weight decay for biases and normalization weights.")
          .one_of({"auto", "none"})
          .read_by(kTrain),
      setting("param_group", &OptimizationSpec::param_group,
              "Own lr, lr_scale, weight_decay ... for matching parameters (docs/optimizers.md; repeatable, later ones "
              "win).")
          .shown_as("GLOB: KEY=VALUE,...")
          .as_json()
          .read_by(kTrain),
      setting("layer_decay", &OptimizationSpec::layer_decay,
              "Factor of the learning rate from each layer to the one below it, starting at the head; 1: off.")
          .above(0)
          .at_most(1)
          .read_by(kTrain)
          .also({"layerwise_lr_decay"}),
      setting("gradual_unfreezing", &OptimizationSpec::gradual_unfreezing,
              "Train the head first, and one more layer every N applied steps; 0: all layers at once.")
          .at_least(0)
          .read_by(kTrain),
      setting("max_grad_norm", &OptimizationSpec::max_grad_norm,
              "Clip gradients to this norm (after unscaling); 0: no clipping.")
          .at_least(0)
          .read_by(kTrain)
          .also({"clip_grad", "clip_grad_norm"}),
      setting("clip_mode", &OptimizationSpec::clip_mode,
              "What is clipped: the 2-norm, the largest element, or each element; agc: the gradient of each output "
              "relative to the norm of its weights.")
          .one_of({"norm", "inf", "value", "agc"})
          .read_by(kTrain),
      setting("ema_decay", &OptimizationSpec::ema_decay,
              "Decay of the moving average of the weights; several give up to four averages; 0: none.")
          .shown_as("X,...")
          .by_commas()
          .checked(normal_decay, "numbers of at least 0 and below 1")
          .read_by(kTrain)
          .also({"model_ema_decay", OtherName("model_ema", "0.9998", "0")}),
      setting("ema_every", &OptimizationSpec::ema_every,
              "Applied steps between updates of the moving average, and of SWA's.")
          .at_least(1)
          .read_by(kTrain)
          .also({"model_ema_steps"}),
      setting("ema_warmup", &OptimizationSpec::ema_warmup,
              "Start the moving average with a lower decay (timm's warm-up).")
          .read_by(kTrain)
          .also({"model_ema_warmup"}),
      setting("swa_start", &OptimizationSpec::swa_start,
              "Stochastic weight averaging from this applied step on, or from this fraction (below 1) of the run; -1: "
              "none.")
          .at_least(-1)
          .read_by(kTrain),
      setting("swa_lr", &OptimizationSpec::swa_lr,
              "Learning rate during weight averaging (torch's SWALR); -1: the schedule continues.")
          .at_least(-1)
          .read_by(kTrain),
      setting("swa_anneal_steps", &OptimizationSpec::swa_anneal_steps, "Steps in which the rate changes to `swa_lr`.")
          .at_least(0)
          .read_by(kTrain),
      setting("swa_anneal_strategy", &OptimizationSpec::swa_anneal_strategy, "How the rate changes to `swa_lr`.")
          .one_of({"cos", "linear"})
          .read_by(kTrain),
      setting("gradient_noise", &OptimizationSpec::gradient_noise,
              "Add normal noise with variance X / (1 + step)^0.55 to gradients, before clipping; 0: none.")
          .at_least(0)
          .read_by(kTrain),
      setting("lookahead", &OptimizationSpec::lookahead,
              "Lookahead: slow weights move towards the weights every N steps; 0: off.")
          .at_least(0)
          .read_by(kTrain)
          .also({"lookahead_k"}),
      setting("lookahead_alpha", &OptimizationSpec::lookahead_alpha, "Fraction by which Lookahead's slow weights move.")
          .above(0)
          .at_most(1)
          .read_by(kTrain),
      setting("gradient_centralization", &OptimizationSpec::gradient_centralization,
              "Subtract the mean from the gradient of each output's weights.")
          .read_by(kTrain)
          .also({"use_gc"}),
      setting("shard_optimizer", &DistributionSpec::shard_optimizer,
              "Several ranks: each keeps the optimizer state of its shard of the parameters only (ZeRO stage 1); "
              "results are the same.")
          .read_by(kTrain)
          .may_change(),
      setting("optim_bits", &OptimizationSpec::optim_bits,
              "Bits of a moment; 8: in blocks of 256, for adam, adamw and lion (CPU).")
          .at_least(8)
          .at_most(32)
          .read_by(kTrain),
      setting(
          "sam_rho", &OptimizationSpec::sam_rho,
          "Sharpness-aware minimization: distance along the gradient at which the gradient is computed again; 0: off.")
          .at_least(0)
          .read_by(kTrain),
  };
}

std::vector<Setting> schedule_settings() {
  return {
      setting("epochs", &ScheduleSpec::epochs, "Passes over the training data; may be fractional.")
          .at_least(0)
          .read_by(kTrain)
          .also({"num_train_epochs", "num_epochs", "epoch"})
          .may_change(),  // effect on the schedule: trainer/loop/resumed_schedule.h
      setting("max_steps", &ScheduleSpec::max_steps,
              "Attempted optimizer steps, including skipped ones; -1: by `epochs`.")
          .at_least(-1)
          .read_by(kTrain)
          .may_change(),
      setting("max_minutes", &ScheduleSpec::max_minutes,
              "Stop after this many minutes of training with a checkpoint and exit 75, for `resume` auto; 0: never.")
          .at_least(0)
          .read_by(kTrain)
          .may_change(),
      setting("batch_size", &ScheduleSpec::batch_size, "Rows of a micro-batch; tokens with `in_tokens`.")
          .at_least(1)
          .read_by(kFeed)
          .also({"per_device_train_batch_size", "train_batch_size", "b"}),
      setting("in_tokens", &TextSpec::in_tokens,
              "`batch_size` counts tokens: rows times the tokens of the longest row, special tokens included.")
          .read_by(kTrain),
      setting("gradient_accumulation_steps", &ScheduleSpec::gradient_accumulation_steps,
              "Micro-batches per optimizer step.")
          .at_least(1)
          .read_by(kTrain)
          .also({"grad_accum_steps", "accumulation_steps", "update_freq"}),
      setting("gradient_cache", &ScheduleSpec::gradient_cache,
              "In-batch negatives from the whole step instead of the micro-batch, in the same memory (GradCache); "
              "micro-batches run forward twice.")
          .read_by(kTrain)
          .also({"grad_cache"}),
      setting("lr_scheduler", &ScheduleSpec::lr_scheduler, "Learning-rate schedule (docs/optimizers.md).")
          .one_of(schedule_choices())
          .same({{"linear_warmup_decay", "linear"}, {"onecycle", "one_cycle"}, {"wsd", "warmup_stable_decay"}})
          .read_by(kTrain)
          .also({"lr_scheduler_type", "sched"}),
      setting("lr_scheduler_kwargs", &ScheduleSpec::lr_scheduler_kwargs,
              "Settings of the schedule by name (docs/optimizers.md).")
          .shown_as("KEY=VALUE,...")
          .as_json()
          .read_by(kTrain),
      setting("warmup_steps", &ScheduleSpec::warmup_steps,
              "Steps of rising learning rate: a whole number, or a fraction (below 1) of all steps.")
          .at_least(0)
          .read_by(kTrain)
          .also({OtherName::fraction_of_one("warmup_ratio"), OtherName::fraction_of_one("warmup_proportion")}),
      setting("lr_range_test", &ScheduleSpec::lr_range_test,
              "Search for a learning rate and stop: N steps with a rate that rises from 1e-7 to 10; 0: train.")
          .at_least(0)
          .read_by(kTrain),
  };
}

std::vector<Setting> evaluation_settings() {
  return {
      setting("eval_batch_size", &EvaluationSpec::eval_batch_size,
              "Rows of an evaluation batch; 0: `batch_size` (with `in_tokens`, as many rows of `max_seq_len` as fit).")
          .at_least(0)
          .read_by(kData)
          .also({"per_device_eval_batch_size", "validation_batch_size", "vb"})
          .may_change(),
      setting("eval_steps", &EvaluationSpec::eval_steps,
              "Evaluate every N steps in addition to the end of each epoch; 0: only there.")
          .at_least(0)
          .read_by(kTrain)
          .also({"validation_steps"})
          .may_change(),
      setting("eval_group_by", &EvaluationSpec::eval_group_by,
              "Also report metrics for each value of this column of the validation data; file: for each input file.")
          .shown_as("COLUMN")
          .read_by(jobs(Job::train, Job::evaluate))
          .may_change(),
      setting("metric_for_best_model", &EvaluationSpec::metric_for_best_model,
              "Metric that selects the best model; auto: by the task.")
          .one_of(metric_choices())
          .same({{"eval_accuracy", "accuracy"},
                 {"eval_loss", "loss"},
                 {"f1", "macro_f1"},
                 {"eval_f1", "macro_f1"},
                 {"top1", "accuracy"}})
          .read_by(kTrain)
          .also({"eval_metric", "metric_name"}),
      setting("early_stopping_patience", &EvaluationSpec::early_stopping_patience,
              "Stop after this many evaluations without a better one; 0: never.")
          .at_least(0)
          .read_by(kTrain)
          .may_change(),
      setting("early_stopping_threshold", &EvaluationSpec::early_stopping_threshold,
              "Improvement that an evaluation must exceed to count for `early_stopping_patience`.")
          .at_least(0)
          .read_by(kTrain)
          .may_change(),
      setting("require", &EvaluationSpec::require,
              "Quality gate on the final metrics, such as accuracy>=0.85: exit 12 if missed (repeatable).")
          .shown_as("METRIC>=X")
          .checked(
              normal_gate,
              "a metric of the task (loss, accuracy, macro_f1, micro_f1, exact_match, miou, pearson ...), then >=, "
              ">, <= or <, then a number")
          .read_by(jobs(Job::train, Job::evaluate))
          .may_change(),
  };
}

}  // namespace amp
