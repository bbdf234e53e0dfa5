// What a CUDA device computes around the sums of its ranks (backend/cuda/nccl.h).
#pragma once

#include <vector>

#include "backend/cuda/device.h"

namespace amp::cuda {

// Gradients in the 16 bits that ranks exchange (CompressedGradients): sent = gradients / ranks, rounded; both (n), n a
// multiple of 4, fp32 and f16 or bf16.
void pack_gradients(CudaDevice& d, const Tensor& gradients, const Tensor& sent, int ranks);
// gradients = sent * ranks.
void unpack_gradients(CudaDevice& d, const Tensor& sent, const Tensor& gradients, int ranks);
// data /= n, fp32.
void divide(CudaDevice& d, const Tensor& data, int n);
// flag, an fp32: 1 where an element of some tensor (fp32) is not finite, else 0.
void flag_nonfinite(CudaDevice& d, const std::vector<Tensor>& tensors, const Tensor& flag);
// Element 0 of an fp32 tensor becomes infinite where the flag is not 0.
void spoil(CudaDevice& d, const Tensor& flag, const Tensor& tensor);

}  // namespace amp::cuda
