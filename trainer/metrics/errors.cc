// Regression metrics: root mean square error, root mean square percentage error, and the coefficient of determination.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "trainer/metrics/metric.h"

namespace amp {

namespace {

double squares(const NumberScores& s) {
  double sum = 0;
  for (size_t i = 0; i < s.wanted.size(); ++i) sum += (s.predicted[i] - s.wanted[i]) * (s.predicted[i] - s.wanted[i]);
  return sum;
}

double rmse(const NumberScores& s) {
  return s.wanted.empty() ? kUndefined : std::sqrt(squares(s) / static_cast<double>(s.wanted.size()));
}

double r2(const NumberScores& s) {  // 1 - residual / total sum of squares
  if (s.wanted.size() < 2) return kUndefined;
  const double mean = std::accumulate(s.wanted.begin(), s.wanted.end(), 0.0) / static_cast<double>(s.wanted.size());
  double total = 0;
  for (const double y : s.wanted) total += (y - mean) * (y - mean);
  const double residual = squares(s);
  if (total == 0) return residual == 0 ? 1 : 0;
  return 1 - residual / total;
}

double rmspe(const NumberScores& s) {  // targets of 0 are skipped
  double sum = 0;
  int64_t n = 0;
  for (size_t i = 0; i < s.wanted.size(); ++i) {
    if (s.wanted[i] == 0) continue;
    const double r = (s.wanted[i] - s.predicted[i]) / s.wanted[i];
    sum += r * r;
    ++n;
  }
  return n ? std::sqrt(sum / static_cast<double>(n)) : kUndefined;
}

const NumberMetricRegistration errors_metrics[] = {
    {{"rmse", rmse, true}},
    {{"r2", r2}},
    {{"rmspe", rmspe, true}},
};

}  // namespace

}  // namespace amp
