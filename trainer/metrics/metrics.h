// Metrics gathered batch by batch. Tasks put them together: trainer/tasks/task.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace amp {

// Index of each row's largest logit, the first one of equals; -1 for a row holding a NaN, which then counts as wrong.
// logits: (rows, classes).
std::vector<int64_t> argmax_rows(const float* logits, int64_t rows, int64_t classes);

void softmax(std::span<const float> logits, std::span<double> out);

// The cosines of rows 2i and 2i + 1 of x, (rows, width).
std::vector<double> pair_cosines(std::span<const double> x, int64_t width);

// What was asked for, what was found, and both, of one class: items or pixels.
struct Hits {
  int64_t both = 0, labelled = 0, predicted = 0;
  double f1() const;   // 2 tp / (2 tp + fp + fn), also called Dice; 0 when nothing was there
  double iou() const;  // tp / (tp + fp + fn)
};

class Classification {
 public:
  explicit Classification(int64_t classes);

  // Equal lengths. Labels equal to ignore are left out; any other outside 0..classes-1 is exit 5 E_DATA_LABEL.
  void add(std::span<const int64_t> predicted, std::span<const int64_t> labels, int64_t ignore = -100);

  int64_t count() const { return count_; }
  double accuracy() const { return count_ ? static_cast<double>(correct_) / static_cast<double>(count_) : 0; }
  // scikit-learn's f1_score and jaccard_score with average="macro": the mean over the classes that occur among the
  // labels or the predictions.
  double macro_f1() const;
  double mean_iou() const;

 private:
  std::vector<Hits> classes_;
  int64_t count_ = 0, correct_ = 0;
};

// Yes or no, for each of a row's labels.
class Multilabel {
 public:
  explicit Multilabel(int64_t labels);

  // Rows of `labels` elements: positive from threshold on (NaN is no), truth from 0.5 on; elements whose truth is
  // `ignore` are left out.
  void add(std::span<const float> scores, std::span<const float> truth, float threshold, float ignore = -100);

  double micro_f1() const;
  double macro_f1() const;  // the mean over all labels, 0 for one that never occurs (scikit-learn's zero_division=0)
  double mean_iou() const;
  double exact_match() const { return rows_ ? static_cast<double>(exact_) / static_cast<double>(rows_) : 0; }
  double accuracy() const {
    return count_ ? static_cast<double>(correct_) / static_cast<double>(count_) : 0;
  }  // of elements

 private:
  std::vector<Hits> labels_;
  int64_t rows_ = 0, exact_ = 0, count_ = 0, correct_ = 0;
};

// Numbers against numbers. Correlations are NaN when one side is constant, Spearman's also beyond 2^24 numbers.
class Regression {
 public:
  void add(std::span<const double> predicted, std::span<const double> wanted);
  double mse() const { return n_ > 0 ? square_ / n_ : 0; }
  double mae() const { return n_ > 0 ? absolute_ / n_ : 0; }
  double pearson() const;
  std::span<const double> predicted() const { return predicted_; }  // empty when there were too many
  std::span<const double> wanted() const { return wanted_; }
  double spearman() const;  // equal numbers share their mean rank

 private:
  double n_ = 0, square_ = 0, absolute_ = 0;
  std::vector<double> predicted_, wanted_;  // as long as there are not too many
  bool kept_ = true;
};

// Answer spans: first and last token of the highest sum of start and end logits, in that order.
class Spans {
 public:
  // start, end: (rows, tokens). labels: (rows, 2); a row with a label of `ignore` is left out.
  void add(std::span<const float> start, std::span<const float> end, std::span<const int64_t> labels,
           int64_t ignore = -100);
  double exact_match() const { return rows_ ? static_cast<double>(exact_) / static_cast<double>(rows_) : 0; }
  double f1() const { return rows_ ? f1_ / static_cast<double>(rows_) : 0; }  // of the tokens, averaged over rows

 private:
  int64_t rows_ = 0, exact_ = 0;
  double f1_ = 0;
};

}  // namespace amp
