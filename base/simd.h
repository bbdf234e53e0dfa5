// Runtime dispatch by instruction set: a loop is compiled for three x86-64 levels and the best one is chosen at run
// time.
//
//   simd([&]() AMP_INLINE { for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]); });
//
// ONNX_AMP_MAX_ISA=v2|v3|v4 (x86-64 microarchitecture levels) limits the choice, for tests.
#pragma once

#include <type_traits>

#define AMP_INLINE __attribute__((always_inline))

namespace amp {

enum class Isa { v2, v3, v4 };  // SSE4.2; AVX2 + FMA + F16C; AVX-512 F/BW/CD/DQ/VL
Isa cpu_isa();
bool cpu_has_bf16();  // avx512_bf16, unless limited

// AVX-512 code uses 256-bit vectors: g++ 12 vectorizes fewer loops at 512 bits, and 512-bit code lowers the clock of
// many CPUs. The attribute `flatten` inlines functions that the body calls, so that loops over functors are vectorized
// too.
namespace detail {
#ifndef __clang__
template <class Body>
[[gnu::target("arch=x86-64-v4,prefer-vector-width=256"), gnu::noinline, gnu::flatten]] void run_v4(Body& body) {
  body();
}
template <class Body>
[[gnu::target("arch=x86-64-v3"), gnu::noinline, gnu::flatten]] void run_v3(Body& body) {
  body();
}
template <class Body>
[[gnu::noinline, gnu::flatten]] void run_v2(Body& body) {
  body();
}
#endif
}  // namespace detail

// body: a lambda without parameters, marked AMP_INLINE so that its code is compiled for the level.
template <class Body>
void simd(Body body) {
#ifdef __clang__  // sanitizer and fuzzer builds: clang does not inline a lambda into a function of another target
  body();
#else
  switch (cpu_isa()) {
    case Isa::v4:
      return detail::run_v4(body);
    case Isa::v3:
      return detail::run_v3(body);
    case Isa::v2:
      return detail::run_v2(body);
  }
#endif
}

// Dispatches by instruction set only if T is float; other types use the baseline.
template <class T, class Body>
void simd_for(Body body) {
  if constexpr (!std::is_same_v<T, float>) {
    body();
  } else {
    simd(body);
  }
}

}  // namespace amp
