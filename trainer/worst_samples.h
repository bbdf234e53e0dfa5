// What a model is worst at, for people to look at: of an evaluation the samples of the largest errors, with their
// labels and predictions; of segmentation the masks too, and those of a few samples that are always the same.
//
// A sample's error, by task: classification, token: -log p of its label (token: summed over the words that are wrong);
// multilabel: binary cross-entropy; regression: the distance; span: -log p of both ends, of answers that do not match;
// segmentation: the share of wrong pixels. What is predicted right is no error. Other tasks have none.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "data/images/image.h"
#include "trainer/evaluate.h"

namespace amp {

struct JudgedSample {
  int64_t sample = 0;  // of the dataset
  double error = 0;    // infinite where the outputs are no numbers
  std::string label, predicted;
  double probability = std::numeric_limits<double>::quiet_NaN();  // of what is predicted, where it has one
  std::string question, passage;                                  // of a span
  Mask label_mask = {}, predicted_mask = {};                      // of segmentation
};

// One row of a batch as judges see it.
struct JudgedRow {
  const LossSpec& loss;
  std::span<const HostTensor> outputs;  // in fp32
  const HostTensor& label;
  int64_t row = 0, rows = 0, sample = 0;
};

class WorstSamples {
 public:
  explicit WorstSamples(size_t most = 16, size_t always = 4) : most_(most), always_(always) {}

  void begin(const Objective& objective, const Dataset& data);  // forgets the last evaluation
  void add(const std::vector<HostTensor>& outputs, const HostTensor& label, std::span<const int64_t> samples);

  Task task() const { return task_; }
  std::vector<JudgedSample> worst() const;  // the largest error first
  const std::vector<JudgedSample>& always() const { return shown_; }

 private:
  double error_of(const JudgedRow& row) const;
  void describe(const JudgedRow& row, JudgedSample& sample) const;
  void keep_first(const JudgedRow& row, JudgedSample judged);

  size_t most_, always_;
  Task task_ = Task::none;
  const LossSpec* loss_ = nullptr;
  std::vector<std::string> classes_;
  const AnswerKey* answers_ = nullptr;
  AnswerOptions options_;
  TargetTransform target_;
  std::vector<JudgedSample> heap_;   // the smallest error in front
  std::vector<JudgedSample> shown_;  // by their numbers
};

}  // namespace amp
