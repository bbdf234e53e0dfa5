// Flags: the precision plan; loss scaling.
#include "tools/cli/flag_words.h"
#include "tools/cli/values.h"

namespace amp::cli {

std::vector<Flag> precision_flags() {
  return {
      toggle("use_fp16", "false", "Mixed precision with float16 and loss scaling.").on(kPlanned).also({"fp16", "amp"}),
      toggle("use_bf16", "false", "Mixed precision with bfloat16.").on(kPlanned).also({"bf16"}),
      text("amp_level", "LEVEL", "O1",
           "Preset: O0 (all fp32), O1, O2, O3, pytorch, tensorflow, paddle, apex; auto: measured at the start of "
           "training.")
          .on(kPlanned)
          .also({"opt_level", "fp16_opt_level"}),
      text("precision_plan", "FILE", "",
           "Op-list JSON: what computes in which type, by operator, node, tensor or parameter.")
          .on(kPlanned)
          .also({"amp_config", "op_list"}),
      text("calibrate", "FILE", "",
           "Measure on this training data which nodes can run in 16 bits, and find the cheapest plan that stays "
           "accurate.")
          .on(only(Verb::plan))
          .also({"calibration_data", "d"}),
      whole("calibrate_batches", "4", "Batches to measure on: plan --calibrate, and --amp_level auto.")
          .at_least(1)
          .on(in(Verb::plan, Verb::train))
          .also({"batches"}),
      real("calibrate_rtol", "0",
           "Largest relative error of loss and gradients against fp32 that a plan may have; 0: 0.01 for fp16, 0.08 for "
           "bf16.")
          .at_least(0)
          .on(in(Verb::plan, Verb::train)),
      choice("format", {"auto", "text", "json", "dot", "html"}, "auto",
             "What plan writes; auto: by the extension of --out (.json, .dot, .html), a table without it.")
          .on(only(Verb::plan)),
      text("diff", "PLAN.json", "",
           "Compare this plan with another one, or with what a model would get now: plan --diff A.json B.json|MODEL.")
          .on(only(Verb::plan)),
      choice("dtype", {"fp32", "fp64", "fp16", "bf16"}, "fp32",
             "Type to compute in. fp16 and bf16 follow the precision plan.")
          .same(
              {{"float32", "fp32"}, {"float64", "fp64"}, {"float16", "fp16"}, {"bfloat16", "bf16"}, {"double", "fp64"}})
          .on(in(Verb::eval, Verb::predict, Verb::grad)),
  };
}

std::vector<Flag> scaling_flags() {
  return {
      text("loss_scale", "dynamic|X", "dynamic", "Loss scale: dynamic (also 0), or a fixed number.")
          .checked(normal_loss_scale, "dynamic (or 0), or a number above 0")
          .on(in(Verb::train, Verb::grad))
          .also({"loss_scaling"}),
      real("init_loss_scale", "65536", "First dynamic scale.")
          .above(0)
          .on(kTrain)
          .also({"init_loss_scaling", "init_scale"}),
      real("scale_growth_factor", "2", "Scale times this after enough good steps.")
          .above(1)
          .on(kTrain)
          .also({"growth_factor"}),
      real("scale_backoff_factor", "0.5", "Scale times this after an overflow.")
          .above(0)
          .below(1)
          .on(kTrain)
          .also({"backoff_factor"}),
      whole("scale_growth_interval", "2000", "Good steps in a row before the scale grows.")
          .at_least(1)
          .on(kTrain)
          .also({"growth_interval"}),
      real("min_loss_scale", "1", "The scale never falls below.").at_least(0).on(kTrain),
      real("max_loss_scale", "16777216", "The scale never grows above; inf for no bound.")
          .above(0)
          .or_infinity()
          .on(kTrain),
      whole("scale_hysteresis", "1", "Overflows before the scale falls.").at_least(1).on(kTrain),
      whole("max_consecutive_skips", "50", "Stop (exit 8) after so many skipped steps in a row; 0: never.")
          .at_least(0)
          .on(kTrain),
      text("inject_overflow", "STEPS", "", "Drill: put +inf into a real gradient at these attempted steps, e.g. 3,6-8.")
          .checked(normal_steps, "steps and ranges counted from 0, such as 3,6-8")
          .on(kTrain),
  };
}

}  // namespace amp::cli
