// WorstSamples: keeps the samples of an evaluation with the largest errors, with their labels and predictions. For
// tasks whose samples are shown as masks it also keeps a few samples that are the same in each evaluation.
//
// Each task's file defines the error (PerSampleError). A right prediction has no error; a text always has one. The
// error of retrieval is the rank of an item's own candidate. It is known only after all rows, so it comes from the
// metrics.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "trainer/losses/losses.h"
#include "trainer/tasks/sample_error.h"
#include "trainer/tasks/task.h"

namespace amp {

class WorstSamples {
 public:
  explicit WorstSamples(size_t most = 16, size_t always = 4) : most_(most), always_(always) {}

  // Begins an evaluation: discards the samples of the previous one. The arguments are those of make_sample_error().
  void begin(Task task, const LossSpec& loss, const MetricContext& context);
  void add(const std::vector<HostTensor>& outputs, const HostTensor& label, std::span<const int64_t> samples);
  void finish(const TaskMetrics& metrics);  // adds errors that are known only after all rows (retrieval)

  Task task() const { return task_; }
  std::vector<SampleRecord> worst() const;  // largest error first
  const std::vector<SampleRecord>& always() const { return shown_; }

 private:
  bool keeps(const SampleRecord& record) const;
  void keep(SampleRecord record);
  void keep_first(SampleRecord record);

  size_t most_, always_;
  Task task_ = Task::none;
  std::unique_ptr<PerSampleError> error_;  // null: the task has no error per row
  // retrieval only: indices of the samples in the order in which the metrics received them
  std::vector<int64_t> items_ = {};
  std::vector<SampleRecord> heap_;   // heap with the smallest error at the front
  std::vector<SampleRecord> shown_;  // in the order of their indices in the dataset
};

}  // namespace amp
