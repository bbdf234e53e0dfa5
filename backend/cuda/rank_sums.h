// Kernels before and after the all-reduces of CUDA ranks (backend/cuda/nccl.h).
#pragma once

#include <vector>

#include "backend/cuda/device.h"

namespace amp::cuda {

// Computes sent = gradients / ranks, rounded to the 16-bit type that ranks exchange (CompressedGradients). Both are
// (n), n a multiple of 4; gradients are fp32, sent is fp16 or bf16.
void pack_gradients(CudaDevice& d, const Tensor& gradients, const Tensor& sent, int ranks);
// Computes gradients = sent * ranks.
void unpack_gradients(CudaDevice& d, const Tensor& sent, const Tensor& gradients, int ranks);
// Computes data /= n in fp32.
void divide(CudaDevice& d, const Tensor& data, int n);
// Sets flag (fp32) to 1 if an element of any tensor (fp32) is not finite, otherwise to 0.
void flag_nonfinite(CudaDevice& d, const std::vector<Tensor>& tensors, const Tensor& flag);
// Sets element 0 of an fp32 tensor to infinity if the flag is not 0.
void set_infinite(CudaDevice& d, const Tensor& flag, const Tensor& tensor);

}  // namespace amp::cuda
