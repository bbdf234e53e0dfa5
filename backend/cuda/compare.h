// How far two tensors on the device are apart: what a library computed against the project's own kernels.
#pragma once

#include "backend/cuda/device.h"

namespace amp::cuda {

struct Distance {
  float difference = 0;  // the largest; NaN: a NaN, or infinities that differ
  float largest = 0;     // magnitude of an element of a
  // Zeros, infinities and NaN in a prove nothing of b.
  bool tells() const;
  // No more than what two orders of summation, TF32 where it is allowed, or a 16-bit result may make of the largest
  // element: something wrong is off by about all of it.
  bool close(DType t) const;
};

// Of one floating type and size, not fp64. Waits for the device.
Distance distance(CudaDevice& d, const Tensor& a, const Tensor& b);

}  // namespace amp::cuda
