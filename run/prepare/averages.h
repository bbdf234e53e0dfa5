// Moving averages of a run's weights: which averages a run computes, and which one it exports.
#pragma once

#include <string>
#include <vector>

namespace amp {

struct OptimizationSpec;

// Returns the decays of `ema_decay` in the given order, without zeros; may be empty.
std::vector<double> ema_decays(const OptimizationSpec& optimization);

// names_average() returns true for an `export_weights` of ema or ema:DECAY. average_named() returns the index of that
// average in ema_decays(), and throws E_EXPORT_WEIGHTS (Exit::usage) if the run does not compute it.
bool names_average(const std::string& weights);
int average_named(const OptimizationSpec& optimization, const std::string& weights);

}  // namespace amp
