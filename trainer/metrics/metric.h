// Definitions of metrics that need all predictions of a dataset. Each file in this folder registers metrics with name
// and function. Reports, gates and best-model selection use the registry. Values equal scikit-learn's on the same data;
// undefined ones are NaN.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/metrics/metrics.h"

namespace amp {

inline double ratio(int64_t a, int64_t b) { return b ? static_cast<double>(a) / static_cast<double>(b) : 0; }

// Labels and predictions of single-label classification.
struct ClassScores {
  int64_t classes = 0;
  std::vector<int64_t> labels, predicted;  // predicted -1: the logits contain NaN
  // (rows, classes); empty if there were too many probabilities to keep. Metrics of probabilities are then NaN.
  std::vector<double> probabilities;
  bool kept = true;

  int64_t rows() const { return static_cast<int64_t>(labels.size()); }
  bool has_probabilities() const { return !labels.empty() && !probabilities.empty(); }
  double probability(int64_t row, int64_t c) const { return probabilities[static_cast<size_t>(row * classes + c)]; }
};

// Appends rows of logits (rows, classes), or of one logit per row for binary labels. are_probabilities: the logits are
// probabilities. Skips rows whose label is `ignore`. Discards the probabilities if there are more than 2^24.
void add_class_scores(ClassScores& scores, std::span<const float> logits, std::span<const int64_t> labels,
                      std::span<const int64_t> predicted, int64_t ignore, bool are_probabilities);
// Returns JSON: "confusion_matrix" (rows: labels, columns: predictions) and "per_class": {name: {precision, recall, f1,
// support}}. Empty for more than 200 classes.
std::string class_details(const ClassScores& scores, const std::vector<std::string>& names);

struct ClassMetric {
  std::string name;
  double (*value)(const ClassScores&);
  bool lower_is_better = false;
  bool ordered = false;  // only for classes in an order
  // Range of the number of classes for which the metric is informative (a top 5 of at most 5 classes is always 1).
  int64_t least_classes = 0, most_classes = std::numeric_limits<int64_t>::max();

  // Returns whether the metric is defined for this number of classes. classes: 0 if they are not known yet
  bool applies(int64_t classes) const { return classes == 0 || (classes >= least_classes && classes <= most_classes); }
};

// Throws E_METRIC (exit 2) if a metric does not apply to this number of classes. flag: the setting, for the message.
void require_applies(const std::string& metric, int64_t classes, const std::string& flag);

// Predictions and targets of regression.
struct NumberScores {
  std::span<const double> predicted, wanted;
};

struct NumberMetric {
  std::string name;
  double (*value)(const NumberScores&);
  bool lower_is_better = false;
};

// Registers a metric. Use at namespace scope of its file: `const ClassMetricRegistration registered{{"name",
// function}};`
struct ClassMetricRegistration {
  ClassMetricRegistration(ClassMetric metric);
};
struct NumberMetricRegistration {
  NumberMetricRegistration(NumberMetric metric);
};

const std::vector<ClassMetric>& class_metrics();  // sorted by name
const std::vector<NumberMetric>& number_metrics();

// Returns counts of samples: [label][prediction].
std::vector<std::vector<int64_t>> confusion_matrix(const ClassScores& scores);

// Scores of one class. Precision is 0 without predictions of the class, recall without labels.
struct ClassReport {
  double precision = 0, recall = 0, f1 = 0;
  int64_t support = 0, predicted = 0;
};
std::vector<ClassReport> class_reports(const ClassScores& scores);

}  // namespace amp
