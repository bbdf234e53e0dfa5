// Arithmetic that rounds alike on both devices.
#pragma once

#include "base/dtype.h"

namespace amp {

// Products and sums as they are written, each rounded: nvcc joins them to fma, after which a point that lies on an
// element exactly may lie before it, or a count move across an integer. The host's compiler does so only where it is
// told of a CPU with fma, which this is not compiled for.
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
