// Products and sums with the same rounding on the CPU and on CUDA.
#pragma once

#include "base/dtype.h"

namespace amp {

// Return a product or a sum, rounded separately. nvcc contracts a product and a sum to an fma, which rounds once. A
// sampling point that is exactly on a pixel may then be placed before it, or a size that is computed from coordinates
// may cross an integer. The host's compiler does that only for CPUs with fma, for which this code is not compiled.
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
