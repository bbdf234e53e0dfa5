// Products and sums with the same rounding on both devices.
#pragma once

#include "base/dtype.h"

namespace amp {

// A product or a sum, rounded separately. nvcc contracts them to fma; a point that is exactly on an element may
// then be placed before it, or a count may cross an integer. The host's compiler does that only for CPUs with fma,
// for which this code is not compiled.
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
