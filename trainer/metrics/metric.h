// A metric: one file in this folder with a row for each, which says what its name is and how it is computed. Reports,
// gates and best models go by the rows. Values are scikit-learn's for the same data; NaN where a metric is not defined.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace amp {

inline constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();  // a metric of rows that have none
inline double ratio(int64_t a, int64_t b) { return b ? static_cast<double>(a) / static_cast<double>(b) : 0; }

// What was predicted for rows of one class each.
struct ClassScores {
  int64_t classes = 0;
  std::vector<int64_t> labels, predicted;  // predicted -1: a NaN among the logits
  // (rows, classes); empty when there were too many to keep: metrics of probabilities are NaN then
  std::vector<double> probabilities;
  bool kept = true;

  int64_t rows() const { return static_cast<int64_t>(labels.size()); }
  bool has_probabilities() const { return !labels.empty() && !probabilities.empty(); }
  double probability(int64_t row, int64_t c) const { return probabilities[static_cast<size_t>(row * classes + c)]; }
};

// Appends rows of logits (rows, classes), or of one logit for yes or no; are_probabilities: they are that already.
// Labels of `ignore` are left out; more than 2^24 probabilities are none.
void add_class_scores(ClassScores& scores, std::span<const float> logits, std::span<const int64_t> labels,
                      std::span<const int64_t> predicted, int64_t ignore, bool are_probabilities);
// JSON: "confusion_matrix", rows by label, columns by prediction; "per_class": {name: {precision, recall, f1, ..}}.
// Empty for more than 200 classes.
std::string class_details(const ClassScores& scores, const std::vector<std::string>& names);

struct ClassMetric {
  std::string name;
  double (*value)(const ClassScores&);
  bool lower_is_better = false;
};

// Numbers against numbers.
struct NumberScores {
  std::span<const double> predicted, wanted;
};

struct NumberMetric {
  std::string name;
  double (*value)(const NumberScores&);
  bool lower_is_better = false;
};

// At namespace scope of a metric's file: `const ClassMetricRegistration registered{{"name", function}};`
struct ClassMetricRegistration {
  ClassMetricRegistration(ClassMetric metric);
};
struct NumberMetricRegistration {
  NumberMetricRegistration(NumberMetric metric);
};

const std::vector<ClassMetric>& class_metrics();  // by name
const std::vector<NumberMetric>& number_metrics();

// Rows by label, columns by prediction.
std::vector<std::vector<int64_t>> confusion_matrix(const ClassScores& scores);

// Of one class: precision and recall are 0 where nothing was predicted or labelled.
struct ClassReport {
  double precision = 0, recall = 0, f1 = 0;
  int64_t support = 0, predicted = 0;
};
std::vector<ClassReport> class_reports(const ClassScores& scores);

}  // namespace amp
