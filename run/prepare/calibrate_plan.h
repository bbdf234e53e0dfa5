// Chooses a precision plan by measurement: the `calibrate` of the verb plan, and an `amp_level` of auto in training.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"
#include "data/dataset.h"
#include "graph/source.h"
#include "run/spec/job.h"
#include "trainer/loop/calibrate.h"
#include "trainer/loop/evaluate.h"

namespace amp {

struct PrecisionSpec;
struct RunSpec;

// Returns true if `amp_level` is auto, a 16-bit type is requested and no plan file is given.
bool measures_plan(const PrecisionSpec& precision);

// Measures plans on `calibrate_batches` batches in training order and returns the chosen plan. Starts from `amp_level`
// or `precision_plan` if one of them is named, else from O2 and O1. Logs each plan that it tries.
CalibratedPlan calibrate_plan(const RunSpec& spec, Job job, const SourceGraph& graph, const Objective& objective,
                              const Dataset& data, bool text, const Log& log);

}  // namespace amp
