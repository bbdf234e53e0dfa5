// Products and sums with the same rounding on the CPU and on CUDA.
#pragma once

#include "base/dtype.h"

namespace amp {

// Return a product or a sum, rounded separately. nvcc would contract a product and a sum to an fma, which rounds only
// once. A sampling point exactly on a pixel could then be placed before the pixel, or a size that is computed from
// coordinates could cross an integer. The host's compiler contracts only for CPUs with fma, for which this code is
// not compiled.
template <class T>
HD inline T rounded_product(T a, T b) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == 4)
    return __fmul_rn(a, b);
  else
    return __dmul_rn(a, b);
#else
  return a * b;
#endif
}
template <class T>
HD inline T rounded_sum(T a, T b) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == 4)
    return __fadd_rn(a, b);
  else
    return __dadd_rn(a, b);
#else
  return a + b;
#endif
}

}  // namespace amp
