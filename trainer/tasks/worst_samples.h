// WorstSamples: the samples of an evaluation with the largest errors, with their labels and predictions. For tasks
// whose samples are pictures of masks it also keeps a few samples that are the same in each evaluation.
//
// Each task's file defines the error (PerSampleError). A right prediction is no error; a text always has one. The error
// of retrieval, the rank of the own candidate, is known when all rows are there and comes from the metrics.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "trainer/loop/evaluate.h"
#include "trainer/tasks/sample_error.h"

namespace amp {

class WorstSamples {
 public:
  explicit WorstSamples(size_t most = 16, size_t always = 4) : most_(most), always_(always) {}

  void begin(const Objective& objective, const Dataset& data);  // forgets the last evaluation
  void add(const std::vector<HostTensor>& outputs, const HostTensor& label, std::span<const int64_t> samples);
  void finish(const TaskMetrics& metrics);  // errors that are known once all rows are there: of retrieval

  Task task() const { return task_; }
  std::vector<SampleRecord> worst() const;  // the largest error first
  const std::vector<SampleRecord>& always() const { return shown_; }

 private:
  bool keeps(const SampleRecord& record) const;
  void keep(SampleRecord record);
  void keep_first(SampleRecord record);

  size_t most_, always_;
  Task task_ = Task::none;
  std::unique_ptr<PerSampleError> error_;  // null: the task's rows have no error of their own
  std::vector<int64_t> items_ = {};        // retrieval: the samples, in the order in which metrics received them
  std::vector<SampleRecord> heap_;         // the smallest error in front
  std::vector<SampleRecord> shown_;        // by their numbers
};

}  // namespace amp
