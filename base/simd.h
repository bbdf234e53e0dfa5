// One binary for every x86-64: a loop is compiled for three instruction sets and chosen at run time.
//
//   simd([&]() AMP_INLINE { for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]); });
//
// ONNX_AMP_MAX_ISA=v2|v3|v4 (x86-64 micro-architecture levels) caps the choice, for tests.
#pragma once

#include <type_traits>

#define AMP_INLINE __attribute__((always_inline))

namespace amp {

enum class Isa { v2, v3, v4 };  // SSE4.2; AVX2 + FMA + F16C; AVX-512 F/BW/CD/DQ/VL
Isa cpu_isa();
bool cpu_has_bf16();  // avx512_bf16, within the cap

// 256-bit vectors on AVX-512 too: g++ 12 vectorises fewer loops at 512 bits, and they lower the clock of many CPUs.
// flatten: whatever the body calls is compiled for the level too, so that loops over functors vectorise.
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

// body: a lambda taking nothing, marked AMP_INLINE so that its code is compiled for the level.
template <class Body>
void simd(Body body) {
#ifdef __clang__  // the builds for sanitizers and fuzzers: clang inlines no lambda into a function of another target
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

// Of a loop that computes in T: for the baseline alone but in fp32.
template <class T, class Body>
void simd_for(Body body) {
  if constexpr (!std::is_same_v<T, float>) {
    body();
  } else {
    simd(body);
  }
}

}  // namespace amp
