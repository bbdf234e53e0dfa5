// Metrics of tasks that predict one class for each row, token or pixel.
#pragma once

#include <memory>
#include <vector>

#include "trainer/metrics/metrics.h"
#include "trainer/tasks/task.h"

namespace amp {

class ClassMetrics : public TaskMetrics {
 public:
  // Counts predicted and labeled classes. Outputs have the shape [..., C] or [B, C, ...], or one logit per label
  // (binary).
  void add(const std::vector<HostTensor>& outputs, const HostTensor& label, std::span<const int64_t>) override;

 protected:
  // second_axis: the class axis of an output [B, C, ...] is axis 1, regardless of the labels' shape.
  explicit ClassMetrics(const LossSpec& loss, bool second_axis = false) : loss_(loss), second_axis_(second_axis) {}

  // Called for each batch after its classes are counted. ids and wanted: predicted and labeled ids, in the labels'
  // order.
  virtual void counted(const HostTensor& output, const HostTensor& label, int64_t classes,
                       const std::vector<int64_t>& ids, const std::vector<int64_t>& wanted);
  // Counts a batch with one logit per label. Class 1 is predicted if the probability is above 0.5.
  virtual void add_binary(const std::vector<float>& logits, const std::vector<int64_t>& wanted);
  // Returns 0 or 1 for each logit; -1 for a NaN.
  static std::vector<int64_t> yes_or_no(const std::vector<float>& logits);
  void count(int64_t classes, const std::vector<int64_t>& ids, const std::vector<int64_t>& wanted);
  const Classification& classes() const;

  const LossSpec loss_;

 private:
  bool second_axis_;
  std::unique_ptr<Classification> classes_;  // null before the first batch
};

}  // namespace amp
