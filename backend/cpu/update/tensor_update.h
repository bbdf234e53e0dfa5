// The CPU's update by a rule of whole tensors (backend/tensor_rule.h), tensor by tensor; its state.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/update/update_loops.h"
#include "backend/tensor_layout.h"
#include "base/host_tensor.h"

namespace amp {

template <class T>
class TensorUpdate {
 public:
  TensorUpdate(const OptimizerConfig& config, const std::vector<UpdateSpan>& spans);

  // The gradient as the rule sees it, then the tensor.
  void move(size_t span, const TensorTime& now, T* p, const T* grads, const kernel::GradTransform<T>& transform);
  // What a checkpoint keeps: a state of all tensors, one behind the other.
  std::vector<std::pair<std::string, HostTensor*>> state();

 private:
  std::string rule_;
  RuleSettings settings_;
  TensorLayout layout_;
  std::vector<HostTensor> kept_;
  std::vector<T> gradient_, scratch_;
  std::vector<double> sums_;
};

extern template class TensorUpdate<float>;
extern template class TensorUpdate<double>;

}  // namespace amp
