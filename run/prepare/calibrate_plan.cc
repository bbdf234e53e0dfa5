#include "run/prepare/calibrate_plan.h"

#include "base/error.h"
#include "data/loader.h"
#include "run/data/data.h"
#include "run/prepare/common.h"
#include "run/spec/spec.h"
#include "trainer/loop/trainer.h"

namespace amp {

bool measures_plan(const PrecisionSpec& precision) {
  return *precision.amp_level == "auto" && precision.precision_plan.empty() &&
         (*precision.use_fp16 || *precision.use_bf16);
}

CalibratedPlan calibrate_plan(const RunSpec& spec, Job job, const SourceGraph& graph, const Objective& objective,
                              const Dataset& data, bool text, const Log& log) {
  CalibrateOptions o;
  o.low = *spec.precision.use_bf16 ? DType::bf16 : DType::f16;
  o.rtol = spec.precision.calibrate_rtol;
  o.session = session_options(spec, job, PrecisionPlan{}, log);
  o.session.batchnorm_train = *spec.model.batchnorm == "train";
  if (!spec.precision.precision_plan.empty()) {
    o.bases = {spec.precision.precision_plan};
  } else if (spec.precision.amp_level.asked() && *spec.precision.amp_level != "auto") {
    o.bases = {*spec.precision.amp_level};
  }
  o.say = [&log](const std::string& line) { log.info(cat("calibration: ", line)); };
  Sampler sampler = make_sampler(data, sampler_options(spec, data, text));
  std::vector<Tensors> batches;
  const auto wanted = static_cast<size_t>(spec.precision.calibrate_batches);
  for (int64_t w = 0; w < sampler.windows_per_epoch() && batches.size() < wanted; ++w) {
    for (const Batch& batch : load_window(data, sampler.next()).batches) {
      if (batches.size() < wanted) batches.push_back(to_tensors(batch, objective.teacher));
    }
  }
  CalibratedPlan found = calibrate(graph, objective.losses, batches, o);
  for (const std::string& w : found.plan.warnings) log.warning(w);
  log.info(cat("calibration: ", found.plan.list.name, " with ", found.plan.list.rules.size(), " rules, error ",
               found.error, found.within ? "" : ": no plan tried stays within `calibrate_rtol`"));
  return found;
}

}  // namespace amp
