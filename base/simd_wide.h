// Loops at 512 bits on AVX-512 (base/simd.h has 256): those of much arithmetic that g++ vectorises so.
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

// Body: see simd().
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
