// Metrics gathered batch by batch: average loss, accuracy and macro-F1 of a classification.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace amp {

// Mean over items of a loss reported as batch means or sums; a non-finite loss makes it non-finite, never hidden.
class LossAverage {
 public:
  void add_mean(double mean, double items) { add_sum(mean * items, items); }
  void add_sum(double sum, double items);
  double items() const { return items_; }
  double value() const { return items_ > 0 ? sum_ / items_ : 0; }  // 0 when nothing was counted

 private:
  double sum_ = 0, items_ = 0;
};

// Index of each row's largest logit, the first one of equals; -1 for a row holding a NaN, which then counts as wrong.
// logits: (rows, classes).
std::vector<int64_t> argmax_rows(const float* logits, int64_t rows, int64_t classes);

class Classification {
 public:
  explicit Classification(int64_t classes);

  // Equal lengths. Labels equal to ignore are left out; any other outside 0..classes-1 is exit 5 E_DATA_LABEL.
  void add(std::span<const int64_t> predicted, std::span<const int64_t> labels, int64_t ignore = -100);

  int64_t count() const { return count_; }
  double accuracy() const { return count_ ? static_cast<double>(correct_) / static_cast<double>(count_) : 0; }
  // scikit-learn's f1_score(average="macro"): the mean of 2 tp / (2 tp + fp + fn) over the classes that occur among
  // the labels or the predictions.
  double macro_f1() const;

 private:
  struct Class {
    int64_t both = 0, labelled = 0, predicted = 0;
  };
  std::vector<Class> classes_;
  int64_t count_ = 0, correct_ = 0;
};

}  // namespace amp
