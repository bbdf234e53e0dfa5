// Averages of the classes' precision, recall and F1, and Matthews' correlation coefficient.
#include <cmath>
#include <limits>

#include "trainer/metrics/metric.h"

namespace amp {

namespace {

// Returns the mean over the classes that occur among labels or predictions (scikit-learn's average="macro").
template <class F>
double macro(const ClassScores& s, F&& value, bool labeled_only = false) {
  double sum = 0;
  int64_t n = 0;
  for (const ClassReport& c : class_reports(s)) {
    if (c.support == 0 && (labeled_only || c.predicted == 0)) continue;
    sum += value(c);
    ++n;
  }
  return n ? sum / static_cast<double>(n) : 0;
}

double macro_precision(const ClassScores& s) {
  return macro(s, [](const ClassReport& c) { return c.precision; });
}
double macro_recall(const ClassScores& s) {
  return macro(s, [](const ClassReport& c) { return c.recall; });
}
double balanced_accuracy(const ClassScores& s) {
  return macro(
      s, [](const ClassReport& c) { return c.recall; }, true);
}

double weighted_f1(const ClassScores& s) {  // weighted by support
  double sum = 0;
  for (const ClassReport& c : class_reports(s)) sum += c.f1 * static_cast<double>(c.support);
  return s.rows() ? sum / static_cast<double>(s.rows()) : 0;
}

double binary_f1(const ClassScores& s) {  // F1 of class 1, the metric of GLUE's MRPC and QQP
  return s.classes == 2 ? class_reports(s)[1].f1 : std::numeric_limits<double>::quiet_NaN();
}

// Returns the correlation of two assignments to K classes (Gorodkin 2004, doi:10.1016/j.compbiolchem.2004.09.006).
double matthews(const ClassScores& s) {
  double right = 0, labeled = 0, predicted = 0, product = 0;
  const auto n = static_cast<double>(s.rows());
  for (size_t i = 0; i < s.labels.size(); ++i) right += s.labels[i] == s.predicted[i];
  for (const ClassReport& c : class_reports(s)) {
    const auto t = static_cast<double>(c.support), p = static_cast<double>(c.predicted);
    labeled += t * t;
    predicted += p * p;
    product += t * p;
  }
  const double spread = (n * n - labeled) * (n * n - predicted);
  return spread > 0 ? (right * n - product) / std::sqrt(spread) : 0;
}

const ClassMetricRegistration precision_recall_metrics[] = {
    {{"macro_precision", macro_precision}},
    {{"macro_recall", macro_recall}},
    {{"balanced_accuracy", balanced_accuracy}},
    {{"weighted_f1", weighted_f1}},
    {{.name = "binary_f1", .value = binary_f1, .most_classes = 2}},
    {{"mcc", matthews}},
};

}  // namespace

}  // namespace amp
