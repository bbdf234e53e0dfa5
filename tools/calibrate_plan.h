// The plan that numbers choose: plan --calibrate, and --amp_level auto in training.
#pragma once

#include <string>
#include <vector>

#include "data/dataset.h"
#include "tools/cli/options.h"
#include "trainer/calibrate.h"
#include "trainer/evaluate.h"

namespace amp {

// plan --calibrate FILE, or --amp_level auto with a 16-bit type asked for and no plan file.
bool wants_calibration(const cli::Options& opts);

// Over --calibrate_batches batches in training order. Starts from --amp_level or --precision_plan if one is named, else
// from O2 and O1. Each plan that is tried is a line on stderr.
CalibratedPlan calibrate_plan(const cli::Options& opts, const SourceGraph& graph, const Objective& objective,
                              const Dataset& data, bool text);

}  // namespace amp
