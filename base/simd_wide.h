// As base/simd.h, but with 512-bit vectors on AVX-512, for arithmetic-heavy loops that g++ vectorizes at this width.
#pragma once

#include "base/simd.h"

namespace amp {

namespace detail {
#ifndef __clang__
template <class Body>
[[gnu::target("arch=x86-64-v4,prefer-vector-width=512"), gnu::noinline, gnu::flatten]] void run_v4_wide(Body& body) {
  body();
}
#endif
}  // namespace detail

// body: as for simd().
template <class Body>
void simd_wide(Body body) {
#ifndef __clang__
  if (cpu_isa() == Isa::v4) return detail::run_v4_wide(body);
#endif
  simd(body);
}

template <class T, class Body>
void simd_wide_for(Body body) {
  if constexpr (!std::is_same_v<T, float>) {
    body();
  } else {
    simd_wide(body);
  }
}

}  // namespace amp
