// The instruction sets of 64-bit ARM (base/simd.h). Every such CPU has NEON with fused multiply-adds and conversions of
// fp16, so loops are compiled once. The level only selects the kernels of backend/cpu/isa/arm.
#pragma once

#define AMP_INLINE __attribute__((always_inline))

namespace amp {

enum class Isa { neon, bf16 };  // neon: Armv8.0; bf16: Armv8.2 with FEAT_BF16 (BFDOT)
Isa cpu_isa();

namespace detail {
template <class Body>
[[gnu::noinline, gnu::flatten]] void run_neon(Body& body) {
  body();
}
}  // namespace detail

template <class Body>
void simd(Body body) {
  detail::run_neon(body);
}

template <class Body>
void simd_wide(Body body) {
  detail::run_neon(body);
}

namespace cpu {

template <class Fn>
void at_level(const Fn& fn) {
  const auto neon = [&]() AMP_INLINE { fn.template operator()<4>(); };
  detail::run_neon(neon);
}

}  // namespace cpu
}  // namespace amp
