// Metrics of tasks that predict one class for each row, token or pixel.
#pragma once

#include <memory>
#include <vector>

#include "trainer/metrics/metrics.h"
#include "trainer/tasks/task.h"

namespace amp {

class ClassMetrics : public TaskMetrics {
 public:
  // Counts the classes of outputs [..., C] or [B, C, ...]; an output with one value for each label is yes or no.
  void add(const std::vector<HostTensor>& outputs, const HostTensor& label, std::span<const int64_t>) override;

 protected:
  // second_axis: an output [B, C, ...] has its classes in axis 1, whatever the labels' shape.
  explicit ClassMetrics(const LossSpec& loss, bool second_axis = false) : loss_(loss), second_axis_(second_axis) {}

  // Called for each batch, after its classes were counted: the predicted and the labeled ids, in the labels' order.
  virtual void counted(const HostTensor& output, const HostTensor& label, int64_t classes,
                       const std::vector<int64_t>& ids, const std::vector<int64_t>& wanted);
  // One logit for each label: class 1 from a probability above 0.5 on.
  virtual void add_binary(const std::vector<float>& logits, const std::vector<int64_t>& wanted);
  static std::vector<int64_t> yes_or_no(const std::vector<float>& logits);  // -1 for a NaN
  void count(int64_t classes, const std::vector<int64_t>& ids, const std::vector<int64_t>& wanted);
  const Classification& classes() const;

  const LossSpec loss_;

 private:
  bool second_axis_;
  std::unique_ptr<Classification> classes_;  // null before the first batch
};

}  // namespace amp
