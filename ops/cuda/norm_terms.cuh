// What several kernels of norms compute of an element, in one text whose every product and sum is rounded: the compiler
// contracts nothing, so that the bits are the same wherever it stands.
#pragma once

#include "backend/cuda/thread.cuh"
#include "backend/rounded.h"

namespace amp::cuda {

// The norm of x.
DEV float normalized(float x, float mean, float rstd, float scale, float bias) {
  return rounded_sum(rounded_product(rounded_product(x - mean, rstd), scale), bias);
}
// What it adds to the gradient of scale.
DEV float scale_term(float dy, float x, float mean, float rstd) {
  return rounded_product(rounded_product(dy, x - mean), rstd);
}

}  // namespace amp::cuda
