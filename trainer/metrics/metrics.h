// Metrics that are accumulated batch by batch. Tasks combine them (trainer/tasks/task.h).
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace amp {

inline constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();  // value of an undefined metric

// Returns the index of each row's largest logit, the first one among equal logits. Returns -1 for a row with NaN, so
// that it counts as wrong. logits: (rows, classes).
std::vector<int64_t> argmax_rows(const float* logits, int64_t rows, int64_t classes);

void softmax(std::span<const float> logits, std::span<double> out);

// Returns the cosine similarities of rows 2i and 2i + 1 of x (rows, width).
std::vector<double> pair_cosines(std::span<const double> x, int64_t width);

// Counts of one class, in items or pixels: labeled, predicted, and both (true positives).
struct Hits {
  int64_t both = 0, labeled = 0, predicted = 0;
  double f1() const;   // 2 tp / (2 tp + fp + fn), also called Dice; 0 if all counts are 0
  double iou() const;  // tp / (tp + fp + fn)
};

class Classification {
 public:
  explicit Classification(int64_t classes);

  // Requires equal lengths. Skips labels equal to `ignore`. Throws E_DATA_LABEL (exit 5) for any other label outside
  // 0..classes-1.
  void add(std::span<const int64_t> predicted, std::span<const int64_t> labels, int64_t ignore = -100);

  int64_t count() const { return count_; }
  double accuracy() const { return count_ ? static_cast<double>(correct_) / static_cast<double>(count_) : 0; }
  // As scikit-learn's f1_score and jaccard_score with average="macro": means over the classes that occur among labels
  // or predictions.
  double macro_f1() const;
  double mean_iou() const;

 private:
  std::vector<Hits> classes_;
  int64_t count_ = 0, correct_ = 0;
};

// Multilabel classification: each row has one binary value per label.
class Multilabel {
 public:
  explicit Multilabel(int64_t labels);

  // scores and truth: rows of `labels` elements. A score above threshold is positive; NaN is negative. Truth of at
  // least 0.5 is positive. Skips elements whose truth is `ignore`.
  void add(std::span<const float> scores, std::span<const float> truth, float threshold, float ignore = -100);

  double micro_f1() const;
  double macro_f1() const;  // mean over all labels; 0 for one that does not occur (scikit-learn's zero_division=0)
  double mean_iou() const;
  double exact_match() const { return rows_ ? static_cast<double>(exact_) / static_cast<double>(rows_) : 0; }
  // Returns the share of elements that are predicted correctly.
  double accuracy() const { return count_ ? static_cast<double>(correct_) / static_cast<double>(count_) : 0; }

 private:
  std::vector<Hits> labels_;
  int64_t rows_ = 0, exact_ = 0, count_ = 0, correct_ = 0;
};

// Regression metrics. Correlations are NaN if predictions or targets are constant, or if there are more than 2^24.
class Regression {
 public:
  void add(std::span<const double> predicted, std::span<const double> wanted);
  double mse() const { return n_ > 0 ? square_ / n_ : 0; }
  double mae() const { return n_ > 0 ? absolute_ / n_ : 0; }
  double pearson() const;
  std::span<const double> predicted() const { return predicted_; }  // empty if more than 2^24 numbers were added
  std::span<const double> wanted() const { return wanted_; }
  double spearman() const;  // ties share their mean rank

 private:
  double n_ = 0, square_ = 0, absolute_ = 0;
  std::vector<double> predicted_, wanted_;  // cleared beyond 2^24 numbers
  bool kept_ = true;
};

// Answer spans: the first and last token with the highest sum of start and end logits, first <= last.
class Spans {
 public:
  // start, end: (rows, tokens). labels: (rows, 2). Skips rows that have a label equal to `ignore`.
  void add(std::span<const float> start, std::span<const float> end, std::span<const int64_t> labels,
           int64_t ignore = -100);
  double exact_match() const { return rows_ ? static_cast<double>(exact_) / static_cast<double>(rows_) : 0; }
  // Returns the F1 of the predicted tokens, averaged over rows.
  double f1() const { return rows_ ? f1_ / static_cast<double>(rows_) : 0; }

 private:
  int64_t rows_ = 0, exact_ = 0;
  double f1_ = 0;
};

}  // namespace amp
