// Settings of the precision plan and of loss scaling. Defaults of the loss scale are those of torch.amp.GradScaler
// where it has the setting.
#include "run/spec/precision.h"

#include "run/settings/rows/rows.h"

namespace amp {

std::vector<Setting> precision_settings() {
  return {
      setting("use_fp16", &PrecisionSpec::use_fp16, "Compute in mixed precision with float16 and loss scaling.")
          .read_by(kPlanned)
          .in_short_help()
          .also({"fp16", "amp"}),
      setting("use_bf16", &PrecisionSpec::use_bf16, "Compute in mixed precision with bfloat16.")
          .read_by(kPlanned)
          .in_short_help()
          .also({"bf16"}),
      setting("amp_level", &PrecisionSpec::amp_level,
              "Preset of the precision plan: O0 (all fp32), O1, O2, O3, pytorch, tensorflow, paddle, apex; auto: "
              "measured at the start of training.")
          .shown_as("LEVEL")
          .read_by(kPlanned)
          .in_short_help()
          .also({"opt_level", "fp16_opt_level"}),
      setting("precision_plan", &PrecisionSpec::precision_plan,
              "JSON file of a precision plan: compute types by operator, node, tensor or parameter "
              "(docs/precision.md). Default: the preset `amp_level`.")
          .shown_as("FILE")
          .read_by(kPlanned)
          .in_short_help()
          .also({"amp_config", "op_list"})
          .same_content(),
      setting("calibrate_batches", &PrecisionSpec::calibrate_batches,
              "Number of batches that plan `calibrate` and `amp_level` auto measure.")
          .at_least(1)
          .read_by(jobs(Job::plan, Job::train))
          .also({"batches"})
          .may_change(),
      setting("calibrate_rtol", &PrecisionSpec::calibrate_rtol,
              "Largest relative error of loss and gradients against fp32 that a measured plan may have; 0: 0.01 for "
              "fp16, 0.08 for bf16.")
          .at_least(0)
          .read_by(jobs(Job::plan, Job::train))
          .may_change(),
      setting("dtype", &PrecisionSpec::dtype,
              "Type in which the model is computed; fp16 and bf16 follow the precision plan.")
          .one_of({"fp32", "fp64", "fp16", "bf16"})
          .same(
              {{"float32", "fp32"}, {"float64", "fp64"}, {"float16", "fp16"}, {"bfloat16", "bf16"}, {"double", "fp64"}})
          .read_by(jobs(Job::evaluate, Job::predict, Job::gradients, Job::generate))
          .may_change(),
  };
}

std::vector<Setting> scaling_settings() {
  return {
      setting("loss_scale", &PrecisionSpec::loss_scale,
              "Loss scale: a fixed number, or dynamic (also 0), which adapts it to overflows.")
          .shown_as("dynamic|X")
          .checked(normal_loss_scale, "dynamic (or 0), or a number above 0")
          .read_by(jobs(Job::train, Job::gradients))
          .also({"loss_scaling"}),
      setting("init_loss_scale", &PrecisionSpec::init_loss_scale, "First value of the dynamic loss scale.")
          .above(0)
          .read_by(kTrain)
          .also({"init_loss_scaling", "init_scale"}),
      setting("scale_growth_factor", &PrecisionSpec::scale_growth_factor,
              "Factor by which the loss scale grows after `scale_growth_interval` steps without overflow.")
          .above(1)
          .read_by(kTrain)
          .also({"growth_factor"}),
      setting("scale_backoff_factor", &PrecisionSpec::scale_backoff_factor,
              "Factor by which the loss scale shrinks after an overflow.")
          .above(0)
          .below(1)
          .read_by(kTrain)
          .also({"backoff_factor"}),
      setting("scale_growth_interval", &PrecisionSpec::scale_growth_interval,
              "Number of steps in a row without overflow after which the loss scale grows.")
          .at_least(1)
          .read_by(kTrain)
          .also({"growth_interval"}),
      setting("min_loss_scale", &PrecisionSpec::min_loss_scale, "Lower bound of the dynamic loss scale.")
          .at_least(0)
          .read_by(kTrain),
      setting("max_loss_scale", &PrecisionSpec::max_loss_scale, "Upper bound of the dynamic loss scale; inf: none.")
          .above(0)
          .or_infinity()
          .read_by(kTrain),
      setting("scale_hysteresis", &PrecisionSpec::scale_hysteresis,
              "Number of steps in a row with an overflow after which the loss scale shrinks.")
          .at_least(1)
          .read_by(kTrain),
      setting("max_consecutive_skips", &PrecisionSpec::max_consecutive_skips,
              "Stop with exit code 8 after this many skipped steps in a row; 0: never.")
          .at_least(0)
          .read_by(kTrain)
          .may_change(),
      setting("inject_overflow", &PrecisionSpec::inject_overflow,
              "For tests: attempted steps, counted from 0, in which +inf is written into a gradient, such as 3,6-8. "
              "Default: none.")
          .shown_as("STEPS")
          .checked(normal_steps, "steps and ranges counted from 0, such as 3,6-8")
          .read_by(kTrain)
          .may_change(),
  };
}

}  // namespace amp
