// Runtime dispatch by instruction set. The code of a loop is compiled once for each level (instruction set) of the
// architecture, and the best level of the CPU is chosen at run time.
//
//   simd([&]() AMP_INLINE { for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]); });
//
// The levels are defined in base/isa/, in one folder per architecture. ONNX_AMP_MAX_ISA=v2|v3|v4 (x86-64
// microarchitecture levels) or neon|bf16 (64-bit ARM) limits the choice, for tests.
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
//   enum class Isa              the levels, in ascending order; Isa cpu_isa() returns the level in use
//   simd(body)                  runs a lambda without parameters; AMP_INLINE makes the compiler compile its code once
//                               per level
//   simd_wide(body)             the same with the widest vectors (512 bits on AVX-512), for arithmetic-heavy loops that
//                               g++ vectorizes at this width
//   cpu::at_level(fn)           calls fn.template operator()<Lanes>(), where Lanes is the number of floats in a vector

// Returns the level of this name; the highest level if the name is unknown.
Isa isa_from_name(std::string_view name);
std::string_view isa_name(Isa isa);  // "x86-64-v4", "aarch64-neon" or similar
// Returns the instruction that multiplies bf16 on this CPU ("amx_bf16", "avx512_bf16", "BFDOT"); empty if there is none
// or ONNX_AMP_MAX_ISA excludes it.
std::string_view bf16_instruction();
inline bool cpu_has_bf16() { return !bf16_instruction().empty(); }

// Runs a body that is compiled for each level if T is float, and for the baseline only if T is another type.
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
