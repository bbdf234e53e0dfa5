// Moving averages of a run's weights: which ones it keeps, and which one is exported.
#pragma once

#include <string>
#include <vector>

#include "run/spec/spec.h"

namespace amp {

std::vector<double> ema_decays(const RunSpec& spec);  // in the order given; empty for none

// --export_weights ema, or ema:DECAY. Usage error (E_EXPORT_WEIGHTS) for one that the run does not keep.
bool names_average(const std::string& weights);
int average_named(const RunSpec& spec, const std::string& weights);

}  // namespace amp
