// Metrics of predicted probabilities: log loss and expected calibration error.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "trainer/metrics/metric.h"

namespace amp {

namespace {

double log_loss(const ClassScores& s) {
  if (!s.has_probabilities()) return kUndefined;
  constexpr double eps = std::numeric_limits<double>::epsilon();
  double sum = 0;
  for (int64_t r = 0; r < s.rows(); ++r)
    sum -= std::log(std::clamp(s.probability(r, s.labels[static_cast<size_t>(r)]), eps, 1 - eps));
  return sum / static_cast<double>(s.rows());
}

// Returns |accuracy - confidence| averaged over 15 bins (low, high] of the largest probability, weighted by the number
// of rows (Guo et al. 2017, arXiv:1706.04599, equation 3).
double expected_calibration_error(const ClassScores& s) {
  if (!s.has_probabilities()) return kUndefined;
  constexpr int bins = 15;
  std::array<double, bins> gap{};
  for (int64_t r = 0; r < s.rows(); ++r) {
    const auto row = s.probabilities.begin() + r * s.classes;
    const double top = *std::max_element(row, row + s.classes);
    if (std::isnan(top)) return kUndefined;
    int bin = 0;
    while (bin + 1 < bins && top > static_cast<double>(bin + 1) / bins) ++bin;
    gap[static_cast<size_t>(bin)] +=
        (s.labels[static_cast<size_t>(r)] == s.predicted[static_cast<size_t>(r)] ? 1 : 0) - top;
  }
  double sum = 0;
  for (const double g : gap) sum += std::abs(g);
  return sum / static_cast<double>(s.rows());
}

const ClassMetricRegistration calibration_metrics[] = {
    {{"log_loss", log_loss, true}},
    {{"ece", expected_calibration_error, true}},
};

}  // namespace

}  // namespace amp
