// Tensor-wise optimizers on the CPU (backend/tensor_rule.h): updates one tensor at a time, and owns the state of all
// tensors.
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

  // Transforms the gradient, then updates the tensor.
  void step(size_t span, const TensorTime& now, T* p, const T* grads, const kernel::GradTransform<T>& transform);
  // Returns the state for checkpoints: one tensor per name, which concatenates this state of all parameters.
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
