// Early pruning of a sweep's runs: a pure function of the evaluations of the runs, at equal steps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace amp {

enum class Pruning { none, median, halving };

// The evaluations of a run so far: step and value of the metric, by rising step. A value that is not finite is worse
// than every other.
using MetricCurve = std::vector<std::pair<int64_t, double>>;

constexpr size_t kMedianRuns = 3;  // number of other runs at a step from which their median counts

// Returns why a run must end after its evaluation number `index` (from 0); nullopt: it continues. `others` are the
// runs to compare with; those without an evaluation at the same step do not count.
//   median: its best value so far is worse than the median of at least kMedianRuns other runs at this step (as
//     Google Vizier's median rule and Optuna's MedianPruner)
//   halving: after 1, 2, 4, 8 ... evaluations only the better half of the runs that reached the step continues,
//     rounded up (asynchronous successive halving, Li et al. 2018, arXiv:1810.05934, with a reduction factor of 2)
std::optional<std::string> pruned(Pruning method, const MetricCurve& run, size_t index,
                                  const std::vector<MetricCurve>& others, bool lower_is_better);

}  // namespace amp
