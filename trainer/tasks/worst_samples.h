// What a model is worst at: of an evaluation the samples of the largest errors, with their labels and predictions; of
// segmentation the masks too, and those of a few samples that are always the same.
//
// A sample's error, by task: classification, token: -log p of its label (token: summed over the words that are wrong);
// multilabel: binary cross-entropy; regression: the distance; span: -log p of both ends, of answers that do not match;
// segmentation: the share of wrong pixels; language, seq2seq: the mean loss of its tokens; retrieval: the rank of its
// own candidate. What is predicted right is no error; a text always has one. Judges: trainer/judges/.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "trainer/judges/judge.h"
#include "trainer/loop/evaluate.h"

namespace amp {

class WorstSamples {
 public:
  explicit WorstSamples(size_t most = 16, size_t always = 4) : most_(most), always_(always) {}

  void begin(const Objective& objective, const Dataset& data);  // forgets the last evaluation
  void add(const std::vector<HostTensor>& outputs, const HostTensor& label, std::span<const int64_t> samples);
  void finish(const TaskMetrics& metrics);  // errors that are known once all rows are there: of retrieval

  Task task() const { return task_; }
  std::vector<JudgedSample> worst() const;  // the largest error first
  const std::vector<JudgedSample>& always() const { return shown_; }

 private:
  bool keeps(const JudgedSample& judged) const;
  void keep(JudgedSample judged);
  void keep_first(JudgedSample judged);

  size_t most_, always_;
  Task task_ = Task::none;
  std::unique_ptr<Judge> judge_;     // null: the task's rows are not judged one by one
  std::vector<int64_t> items_ = {};  // of retrieval: the samples, as the metrics were told them
  std::vector<JudgedSample> heap_;   // the smallest error in front
  std::vector<JudgedSample> shown_;  // by their numbers
};

}  // namespace amp
