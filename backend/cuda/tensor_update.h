// The optimizer step of a tensor-wise optimizer on the GPU, one tensor at a time, and the optimizer's state.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/tensor_worker.cuh"
#include "backend/tensor_layout.h"

namespace amp::cuda {

class TensorUpdate {
 public:
  TensorUpdate(CudaDevice& device, const UpdateSpec& spec);

  // Updates the weights of all spans in the step that `moves.state` describes.
  void launch(const UpdateSpec& spec, const update_kernels::Moves& moves);
  std::vector<std::pair<std::string, Tensor>> state() const;

 private:
  CudaDevice& d_;
  TensorLayout layout_;
  TensorTools tools_;
  std::vector<DeviceMemory> kept_;
  DeviceMemory gradient_, scratch_, sums_, now_;
};

}  // namespace amp::cuda
