#include "run/sweep/pruning.h"

#include <algorithm>
#include <cmath>

#include "base/cat.h"

namespace amp {
namespace {

// Returns the values that the other runs had at `step`, multiplied by `sign` so that smaller is better.
std::vector<double> values_at(int64_t step, const std::vector<MetricCurve>& others, double sign) {
  std::vector<double> out;
  for (const MetricCurve& curve : others) {
    const auto at = std::find_if(curve.begin(), curve.end(), [&](const auto& e) { return e.first == step; });
    if (at != curve.end()) out.push_back(std::isfinite(at->second) ? sign * at->second : HUGE_VAL);
  }
  std::sort(out.begin(), out.end());
  return out;
}

double median_of(const std::vector<double>& sorted) {
  const size_t n = sorted.size();
  return n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

}  // namespace

std::optional<std::string> pruned(Pruning method, const MetricCurve& run, size_t index,
                                  const std::vector<MetricCurve>& others, bool lower_is_better) {
  if (method == Pruning::none) return std::nullopt;
  const double sign = lower_is_better ? 1 : -1;
  const auto cost = [&](size_t i) { return std::isfinite(run[i].second) ? sign * run[i].second : HUGE_VAL; };
  const std::vector<double> at = values_at(run[index].first, others, sign);
  if (method == Pruning::median) {
    double best = cost(index);
    for (size_t i = 0; i < index; ++i) best = std::min(best, cost(i));
    if (at.size() < kMedianRuns || best <= median_of(at)) return std::nullopt;
    return cat("its best value ", sign * best, " is worse than the median ", sign * median_of(at), " of ", at.size(),
               " other runs at step ", run[index].first);
  }
  const size_t number = index + 1;
  if ((number & (number - 1)) != 0) return std::nullopt;
  const auto better =
      static_cast<size_t>(std::count_if(at.begin(), at.end(), [&](double other) { return other < cost(index); }));
  const size_t kept = (at.size() + 2) / 2;  // half of the runs, this run included, rounded up
  if (better < kept) return std::nullopt;
  return cat("its value ", sign * cost(index), " is not among the best ", kept, " of ", at.size() + 1, " runs at step ",
             run[index].first);
}

}  // namespace amp
