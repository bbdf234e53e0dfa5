// The plan that numbers choose: plan --calibrate, and amp_level auto in training.
#pragma once

#include <string>
#include <vector>

#include "data/dataset.h"
#include "run/prepare/common.h"
#include "trainer/loop/calibrate.h"
#include "trainer/loop/evaluate.h"

namespace amp {

// amp_level auto with a 16-bit type asked for and no plan file.
bool measures_plan(const RunSpec& spec);

// Over calibrate_batches batches in training order. Starts from amp_level or precision_plan if one is named, else from
// O2 and O1. Each plan that is tried is told.
CalibratedPlan calibrate_plan(const RunSpec& spec, Job job, const SourceGraph& graph, const Objective& objective,
                              const Dataset& data, bool text, const Log& log);

}  // namespace amp
