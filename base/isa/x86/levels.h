// The instruction sets of x86-64, for which loops are compiled three times (base/simd.h).
#pragma once

#define AMP_INLINE __attribute__((always_inline))

namespace amp {

enum class Isa { v2, v3, v4 };  // v2: SSE4.2; v3: AVX2 + FMA + F16C; v4: AVX-512 F/BW/CD/DQ/VL
Isa cpu_isa();

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
[[gnu::target("arch=x86-64-v4,prefer-vector-width=512"), gnu::noinline, gnu::flatten]] void run_v4_wide(Body& body) {
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

template <class Body>
void simd_wide(Body body) {
#ifndef __clang__
  if (cpu_isa() == Isa::v4) return detail::run_v4_wide(body);
#endif
  simd(body);
}

namespace cpu {

template <class Fn>
void at_level(const Fn& fn) {
  const auto v4 = [&]() AMP_INLINE { fn.template operator()<16>(); };
  const auto v3 = [&]() AMP_INLINE { fn.template operator()<8>(); };
  const auto v2 = [&]() AMP_INLINE { fn.template operator()<4>(); };
  switch (cpu_isa()) {
#ifdef __clang__  // calls the variant for each level directly, compiled without the level's instructions
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

}  // namespace cpu
}  // namespace amp
