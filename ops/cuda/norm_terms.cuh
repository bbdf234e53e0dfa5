// Elementwise terms that several norm kernels share. Every product and sum is rounded (rounded.h), so that the compiler
// cannot contract them to fused multiply-adds. So all kernels compute the same bits.
#pragma once

#include "backend/cuda/thread.cuh"
#include "backend/rounded.h"

namespace amp::cuda {

// Returns the normalized x.
DEV float normalized(float x, float mean, float rstd, float scale, float bias) {
  return rounded_sum(rounded_product(rounded_product(x - mean, rstd), scale), bias);
}
// Returns what one element adds to the gradient of scale.
DEV float scale_term(float dy, float x, float mean, float rstd) {
  return rounded_product(rounded_product(dy, x - mean), rstd);
}

}  // namespace amp::cuda
