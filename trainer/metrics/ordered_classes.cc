// Metrics of ordered classes: Cohen's kappa with quadratic weights, and the mean distance between classes.
#include <cmath>

#include "trainer/metrics/metric.h"

namespace amp {

namespace {

// Returns 1 - sum(w O) / sum(w E) as scikit-learn's cohen_kappa_score(weights="quadratic"). w is (i - j)^2 and O is the
// confusion matrix. E is the expected confusion matrix of independent labels and predictions with the same counts per
// class. Rows whose logits are NaN are left out.
double quadratic_kappa(const ClassScores& s) {
  const std::vector<std::vector<int64_t>> m = confusion_matrix(s);
  const size_t classes = m.size();
  std::vector<double> labeled(classes), predicted(classes);
  double rows = 0;
  for (size_t i = 0; i < classes; ++i) {
    for (size_t j = 0; j < classes; ++j) {
      const auto n = static_cast<double>(m[i][j]);
      labeled[i] += n;
      predicted[j] += n;
      rows += n;
    }
  }
  double observed = 0, expected = 0;
  for (size_t i = 0; i < classes; ++i) {
    for (size_t j = 0; j < classes; ++j) {
      const double distance = static_cast<double>(i) - static_cast<double>(j), weight = distance * distance;
      observed += weight * static_cast<double>(m[i][j]);
      expected += weight * labeled[i] * predicted[j] / rows;
    }
  }
  return expected > 0 ? 1 - observed / expected : kUndefined;  // 0 / 0 if only one class occurs
}

double mean_distance(const ClassScores& s) {
  double sum = 0, rows = 0;
  for (size_t i = 0; i < s.labels.size(); ++i) {
    if (s.predicted[i] < 0) continue;
    sum += std::abs(static_cast<double>(s.predicted[i] - s.labels[i]));
    ++rows;
  }
  return rows > 0 ? sum / rows : kUndefined;
}

const ClassMetricRegistration ordered_class_metrics[] = {
    {{"quadratic_kappa", quadratic_kappa, false, true}},
    {{"mae", mean_distance, true, true}},
};

}  // namespace

}  // namespace amp
