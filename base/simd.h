// Runtime dispatch by instruction set: a loop is compiled for each level of the architecture, and the best one is
// chosen at run time.
//
//   simd([&]() AMP_INLINE { for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]); });
//
// The levels are in one folder per architecture, base/isa/. ONNX_AMP_MAX_ISA=v2|v3|v4 (x86-64 microarchitecture levels)
// or neon|bf16 (64-bit ARM) limits the choice, for tests.
#pragma once

#include <string_view>
#include <type_traits>

#if defined(__x86_64__)
#include "base/isa/x86/levels.h"
#elif defined(__aarch64__)
#include "base/isa/arm/levels.h"
#else
#error "no folder of base/isa for this architecture"
#endif

namespace amp {

// Each architecture declares:
//   enum class Isa              its levels, in ascending order; Isa cpu_isa() returns the level in use
//   simd(body)                  body: a lambda without parameters, marked AMP_INLINE so that its code is compiled for
//                               the level
//   simd_wide(body)             with the widest vectors (512 bits on AVX-512), for arithmetic-heavy loops that g++
//                               vectorizes at this width
//   cpu::at_level(fn)           calls fn.template operator()<Lanes>(), with the number of floats of a vector

// Returns the level of this name; the highest level for another name.
Isa isa_from_name(std::string_view name);
std::string_view isa_name(Isa isa);  // "x86-64-v4", "aarch64-neon"
// Returns the instruction that multiplies bf16 on this CPU ("amx_bf16", "avx512_bf16", "BFDOT"); empty if there is none
// or ONNX_AMP_MAX_ISA excludes it.
std::string_view bf16_instruction();
inline bool cpu_has_bf16() { return !bf16_instruction().empty(); }

// Dispatches by instruction set only if T is float; other types use the baseline.
template <class T, class Body>
void simd_for(Body body) {
  if constexpr (!std::is_same_v<T, float>) {
    body();
  } else {
    simd(body);
  }
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
