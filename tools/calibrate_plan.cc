#include "tools/calibrate_plan.h"

#include <iostream>

#include "base/error.h"
#include "data/loader.h"
#include "tools/common.h"
#include "tools/train_data.h"
#include "trainer/trainer.h"

namespace amp {

bool wants_calibration(const cli::Options& opts) {
  if (opts.verb == cli::Verb::plan) return opts.has("calibrate");
  return opts.str("amp_level") == "auto" && !opts.has("precision_plan") &&
         (opts.flag("use_fp16") || opts.flag("use_bf16"));
}

CalibratedPlan calibrate_plan(const cli::Options& opts, const SourceGraph& graph, const Objective& objective,
                              const Dataset& data, bool text) {
  CalibrateOptions o;
  o.low = opts.flag("use_bf16") ? DType::bf16 : DType::f16;
  o.rtol = opts.num("calibrate_rtol");
  o.session = session_options(opts, PrecisionPlan{});
  o.session.batchnorm_train = opts.str("batchnorm") == "train";
  if (opts.has("precision_plan")) {
    o.bases = {opts.str("precision_plan")};
  } else if (opts.was_set("amp_level") && opts.str("amp_level") != "auto") {
    o.bases = {opts.str("amp_level")};
  }
  if (!opts.flag("quiet")) o.say = [](const std::string& line) { std::cerr << "calibration: " << line << '\n'; };
  Sampler sampler(data.size(), data.lengths(), sampler_options(opts, text));
  std::vector<Tensors> batches;
  const auto wanted = static_cast<size_t>(opts.integer("calibrate_batches"));
  for (int64_t w = 0; w < sampler.windows_per_epoch() && batches.size() < wanted; ++w) {
    for (const Batch& batch : load_window(data, sampler.next()).batches) {
      if (batches.size() < wanted) batches.push_back(to_tensors(batch, objective.teacher));
    }
  }
  CalibratedPlan found = calibrate(graph, objective.losses, batches, o);
  for (const std::string& w : found.plan.warnings) std::cerr << "warning: " << w << '\n';
  if (!opts.flag("quiet")) {
    std::cerr << "calibration: " << found.plan.list.name << " with " << found.plan.list.rules.size() << " rules, error "
              << found.error << (found.within ? "" : ": no plan tried stays within --calibrate_rtol") << '\n';
  }
  return found;
}

}  // namespace amp
