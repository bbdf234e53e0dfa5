// Loops over explicit vectors as wide as the registers of the running CPU.
#pragma once

#include <cstdint>

#include "base/simd.h"

namespace amp::cpu {

template <int Lanes>
struct VectorOf {
  typedef float type __attribute__((vector_size(Lanes * 4), aligned(4)));  // unaligned, for memory
  typedef float local __attribute__((vector_size(Lanes * 4)));  // aligned, for arguments of generic functions
};

// Calls fn.template operator()<Lanes>() compiled for the current SIMD level.
template <class Fn>
void at_level(const Fn& fn) {
  const auto v4 = [&]() AMP_INLINE { fn.template operator()<16>(); };
  const auto v3 = [&]() AMP_INLINE { fn.template operator()<8>(); };
  const auto v2 = [&]() AMP_INLINE { fn.template operator()<4>(); };
  switch (cpu_isa()) {
#ifdef __clang__  // the vectors of each level, compiled for the baseline's instructions (base/simd.h)
    case Isa::v4:
      return v4();
    case Isa::v3:
      return v3();
    case Isa::v2:
      return v2();
#else
    case Isa::v4:
      return detail::run_v4(v4);
    case Isa::v3:
      return detail::run_v3(v3);
    case Isa::v2:
      return detail::run_v2(v2);
#endif
  }
}

}  // namespace amp::cpu
