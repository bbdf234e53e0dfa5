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
      setting("optimizer", &OptimizationSpec::optimizer,
              "Optimizer (docs/optimizers.md); adamw has decoupled weight decay.")
          .one_of(optimizer_choices())
          .same({{"adamw_torch", "adamw"},
                 {"adamw_torch_fused", "adamw"},
                 {"adamw_hf", "adamw"},
                 {"momentum", "sgd"},
                 {"rmsproptf", "rmsprop_tf"}})
          .read_by(kTrain)
          .in_short_help()
          .also({"optim", "opt"}),
      setting("optim_args", &OptimizationSpec::optim_args,
              "Settings of the optimizer by name (docs/optimizers.md). Default: those of the optimizer.")
          .shown_as("KEY=VALUE,...")
          .as_json()
          .read_by(kTrain),
      setting("lr", &OptimizationSpec::lr, "Learning rate at the peak of the schedule.")
          .at_least(0)
          .read_by(kTrain)
          .in_short_help()
          .also({"learning_rate", "l"}),
      setting("lr_base_scale", &OptimizationSpec::lr_base_scale,
              "Scaling of `lr` by the ratio of the samples per step of all ranks to `lr_base_size` (docs/scaling.md). "
              "linear: by this ratio; sqrt: by its square root; none: not at all.")
          .one_of({"none", "linear", "sqrt"})
          .read_by(kTrain),
      setting("lr_base_size", &OptimizationSpec::lr_base_size,
              "Number of samples per step that `lr` was chosen for; used with `lr_base_scale`.")
          .at_least(1)
          .read_by(kTrain),
      setting("momentum", &OptimizationSpec::momentum, "Momentum of sgd, lars and rmsprop.")
          .at_least(0)
          .below(1)
          .read_by(kTrain),
      setting("nesterov", &OptimizationSpec::nesterov, "Use Nesterov momentum in sgd and lars.").read_by(kTrain),
      setting("adam_beta1", &OptimizationSpec::adam_beta1,
              "Decay of the first moment (the average of gradients) in Adam and other optimizers that have it.")
          .at_least(0)
          .below(1)
          .read_by(kTrain)
          .also({"beta1"}),
      setting(
          "adam_beta2", &OptimizationSpec::adam_beta2,
          "Decay of the second moment (the average of squared gradients) in Adam and other optimizers that have it.")
          .at_least(0)
          .below(1)
          .read_by(kTrain)
          .also({"beta2"}),
      setting("adam_epsilon", &OptimizationSpec::adam_epsilon,
              "Number that is added to the root of the second moment in Adam and other optimizers that have it.")
          .above(0)
          .read_by(kTrain)
          .also({"epsilon", "adam_eps", "opt_eps"}),
      setting("weight_decay", &OptimizationSpec::weight_decay, "Coefficient of weight decay; 0: none.")
          .at_least(0)
          .read_by(kTrain)
          .in_short_help(),
      setting("decay_exclude", &OptimizationSpec::decay_exclude,
              "Parameters without weight decay. auto: biases and normalization weights; none: all parameters have it.")
          .one_of({"auto", "none"})
          .read_by(kTrain),
      setting("param_group", &OptimizationSpec::param_group,
              "Own lr, lr_scale, weight_decay ... of the parameters that match GLOB (docs/optimizers.md). Repeat the "
              "flag for more groups; later ones win. Default: none.")
          .shown_as("GLOB: KEY=VALUE,...")
          .as_json()
          .read_by(kTrain),
      setting("layer_decay", &OptimizationSpec::layer_decay,
              "Factor by which the learning rate is multiplied from each layer to the layer below it, starting at the "
              "head; 1: off.")
          .above(0)
          .at_most(1)
          .read_by(kTrain)
          .also({"layerwise_lr_decay"}),
      setting(
          "gradual_unfreezing", &OptimizationSpec::gradual_unfreezing,
          "Train only the head first, and one more layer after every N applied steps; 0: all layers from the start.")
          .at_least(0)
          .read_by(kTrain),
      setting("max_grad_norm", &OptimizationSpec::max_grad_norm,
              "Norm to which gradients are clipped, after unscaling; 0: no clipping.")
          .at_least(0)
          .read_by(kTrain)
          .in_short_help()
          .also({"clip_grad", "clip_grad_norm"}),
      setting("clip_mode", &OptimizationSpec::clip_mode,
              "What `max_grad_norm` limits. norm: the 2-norm of all gradients; inf: their largest element; value: each "
              "element; agc: the gradient of each output relative to the norm of its weights.")
          .one_of({"norm", "inf", "value", "agc"})
          .read_by(kTrain),
      setting("ema_decay", &OptimizationSpec::ema_decay,
              "Decay of the moving average of the weights; up to four decays X,X give as many averages. 0: none.")
          .shown_as("X,...")
          .by_commas()
          .checked(normal_decay, "numbers of at least 0 and below 1")
          .read_by(kTrain)
          .also({"model_ema_decay", OtherName("model_ema", "0.9998", "0")}),
      setting("ema_every", &OptimizationSpec::ema_every,
              "Number of applied steps between updates of the averages of `ema_decay` and `swa_start`.")
          .at_least(1)
          .read_by(kTrain)
          .also({"model_ema_steps"}),
      setting("ema_warmup", &OptimizationSpec::ema_warmup,
              "Start the moving average with a lower decay, which rises to `ema_decay` (timm's warm-up).")
          .read_by(kTrain)
          .also({"model_ema_warmup"}),
      setting("swa_start", &OptimizationSpec::swa_start,
              "Applied step from which on weights are averaged (stochastic weight averaging), or a fraction (below 1) "
              "of the run; -1: never.")
          .at_least(-1)
          .read_by(kTrain),
      setting("swa_lr", &OptimizationSpec::swa_lr,
              "Learning rate during stochastic weight averaging (torch's SWALR); -1: the schedule continues.")
          .at_least(-1)
          .read_by(kTrain),
      setting("swa_anneal_steps", &OptimizationSpec::swa_anneal_steps,
              "Number of steps in which the learning rate changes to `swa_lr`.")
          .at_least(0)
          .read_by(kTrain),
      setting("swa_anneal_strategy", &OptimizationSpec::swa_anneal_strategy,
              "Curve by which the learning rate changes to `swa_lr`.")
          .one_of({"cos", "linear"})
          .read_by(kTrain),
      setting("gradient_noise", &OptimizationSpec::gradient_noise,
              "Add normal noise with variance X / (1 + step)^0.55 to the gradients, before clipping; 0: none.")
          .at_least(0)
          .read_by(kTrain),
      setting("lookahead", &OptimizationSpec::lookahead,
              "Number of steps after which Lookahead's slow weights move towards the weights; 0: off.")
          .at_least(0)
          .read_by(kTrain)
          .also({"lookahead_k"}),
      setting("lookahead_alpha", &OptimizationSpec::lookahead_alpha,
              "Fraction of the distance by which Lookahead's slow weights move towards the weights.")
          .above(0)
          .at_most(1)
          .read_by(kTrain),
      setting("gradient_centralization", &OptimizationSpec::gradient_centralization,
              "Subtract from the gradient of each output's weights its mean.")
          .read_by(kTrain)
          .also({"use_gc"}),
      setting("shard_optimizer", &DistributionSpec::shard_optimizer,
              "With several ranks: each keeps the optimizer state of its own shard of the parameters only (ZeRO stage "
              "1). Results are the same.")
          .read_by(kTrain)
          .may_change(),
      setting("optim_bits", &OptimizationSpec::optim_bits,
              "Bits of each number in the optimizer's moments. 8: quantized in blocks of 256, for adam, adamw and lion "
              "on the CPU.")
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
      setting("epochs", &ScheduleSpec::epochs, "Number of passes over the training data; may be fractional.")
          .at_least(0)
          .read_by(kTrain)
          .in_short_help()
          .also({"num_train_epochs", "num_epochs", "epoch"})
          .may_change(),  // effect on the schedule: trainer/loop/resumed_schedule.h
      setting("max_steps", &ScheduleSpec::max_steps,
              "Number of optimizer steps to attempt, skipped steps included; -1: those of `epochs`.")
          .at_least(-1)
          .read_by(kTrain)
          .in_short_help()
          .may_change(),
      setting("max_minutes", &ScheduleSpec::max_minutes,
              "Stop after this many minutes of training with a checkpoint and exit code 75, so that `resume` auto can "
              "continue; 0: never.")
          .at_least(0)
          .read_by(kTrain)
          .may_change(),
      setting("batch_size", &ScheduleSpec::batch_size,
              "Number of rows in a micro-batch of each rank; with `in_tokens`, number of tokens.")
          .at_least(1)
          .read_by(kFeed)
          .in_short_help()
          .also({"per_device_train_batch_size", "train_batch_size", "b"}),
      setting("in_tokens", &TextSpec::in_tokens,
              "Count `batch_size` in tokens: the rows of a micro-batch times the tokens of its longest row, special "
              "tokens included.")
          .read_by(kTrain),
      setting("gradient_accumulation_steps", &ScheduleSpec::gradient_accumulation_steps,
              "Number of micro-batches in an optimizer step.")
          .at_least(1)
          .read_by(kTrain)
          .in_short_help()
          .also({"grad_accum_steps", "accumulation_steps", "update_freq"}),
      setting("gradient_cache", &ScheduleSpec::gradient_cache,
              "Take in-batch negatives from the whole step instead of the micro-batch, in the same memory (GradCache). "
              "Micro-batches run forward twice.")
          .read_by(kTrain)
          .also({"grad_cache"}),
      setting("lr_scheduler", &ScheduleSpec::lr_scheduler, "Learning-rate schedule (docs/optimizers.md).")
          .one_of(schedule_choices())
          .same({{"linear_warmup_decay", "linear"}, {"onecycle", "one_cycle"}, {"wsd", "warmup_stable_decay"}})
          .read_by(kTrain)
          .in_short_help()
          .also({"lr_scheduler_type", "sched"}),
      setting("lr_scheduler_kwargs", &ScheduleSpec::lr_scheduler_kwargs,
              "Settings of the schedule by name (docs/optimizers.md). Default: those of the schedule.")
          .shown_as("KEY=VALUE,...")
          .as_json()
          .read_by(kTrain),
      setting("warmup_steps", &ScheduleSpec::warmup_steps,
              "Number of steps in which the learning rate rises to its peak, or a fraction (below 1) of all steps.")
          .at_least(0)
          .read_by(kTrain)
          .in_short_help()
          .also({OtherName::fraction_of_one("warmup_ratio"), OtherName::fraction_of_one("warmup_proportion")}),
      setting("lr_range_test", &ScheduleSpec::lr_range_test,
              "Number of steps of a learning-rate range test, in which the rate rises from 1e-7 to 10. The program "
              "stops after the test. 0: train.")
          .at_least(0)
          .read_by(kTrain),
  };
}

std::vector<Setting> evaluation_settings() {
  return {
      setting("eval_batch_size", &EvaluationSpec::eval_batch_size,
              "Number of rows in an evaluation batch; 0: `batch_size` (with `in_tokens`, as many rows of `max_seq_len` "
              "as fit).")
          .at_least(0)
          .read_by(kData)
          .also({"per_device_eval_batch_size", "validation_batch_size", "vb"})
          .may_change(),
      setting("eval_steps", &EvaluationSpec::eval_steps,
              "Evaluate every N steps, in addition to the end of each epoch; 0: only at the end of each epoch.")
          .at_least(0)
          .read_by(kTrain)
          .in_short_help()
          .also({"validation_steps"})
          .may_change(),
      setting("eval_group_by", &EvaluationSpec::eval_group_by,
              "Also report metrics for each value of this column of the validation data, or for each input file "
              "(file). Default: only for all data.")
          .shown_as("COLUMN")
          .read_by(jobs(Job::train, Job::evaluate))
          .may_change(),
      setting(
          "sample_prompts", &EvaluationSpec::sample_prompts,
          "Prompts that a causal language model continues at each evaluation, to see what it learns: a text, a JSON "
          "array of messages, or a file with one of these in each line. Repeatable. Default: none.")
          .shown_as("FILE|TEXT")
          .read_by(kTrain)
          .may_change(),
      setting("sample_new_tokens", &EvaluationSpec::sample_new_tokens,
              "Largest number of tokens to generate for each of `sample_prompts`.")
          .at_least(1)
          .at_most(100000)
          .read_by(kTrain)
          .may_change(),
      setting("metric_for_best_model", &EvaluationSpec::metric_for_best_model,
              "Metric that selects the best model; auto: chosen by the task.")
          .one_of(metric_choices())
          .same({{"eval_accuracy", "accuracy"},
                 {"eval_loss", "loss"},
                 {"f1", "macro_f1"},
                 {"eval_f1", "macro_f1"},
                 {"top1", "accuracy"}})
          .read_by(kTrain)
          .also({"eval_metric", "metric_name"}),
      setting("early_stopping_patience", &EvaluationSpec::early_stopping_patience,
              "Stop training after this many evaluations in a row without a better one; 0: never.")
          .at_least(0)
          .read_by(kTrain)
          .in_short_help()
          .may_change(),
      setting(
          "early_stopping_threshold", &EvaluationSpec::early_stopping_threshold,
          "Improvement of the metric that an evaluation must exceed to count as better for `early_stopping_patience`.")
          .at_least(0)
          .read_by(kTrain)
          .may_change(),
      setting("require", &EvaluationSpec::require,
              "Condition on a final metric, such as accuracy>=0.85; exit code 12 if it is not met. Repeat the flag for "
              "more. Default: none.")
          .shown_as("METRIC>=X")
          .checked(
              normal_gate,
              "a metric of the task (loss, accuracy, macro_f1, micro_f1, exact_match, miou, pearson ...), then >=, "
              ">, <= or <, then a number")
          .read_by(jobs(Job::train, Job::evaluate))
          .in_short_help()
          .may_change(),
  };
}

}  // namespace amp
