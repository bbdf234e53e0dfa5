#pragma once
// Vectors of pairs of bf16, the operands of AVX512_BF16's products.
#include <immintrin.h>

namespace amp::cpu::x86 {

// Reinterprets 16 numbers of 32 bits as 16 pairs of bf16.
[[gnu::target("avx512f,avx512bf16"), gnu::always_inline]] inline __m512bh bf16_pairs(__m512i bits) {
#ifdef __clang__
  // Clang 16 crashes when it compiles 16 equal numbers as a vector of bf16. The statement hides that they are equal.
  asm("" : "+v"(bits));
#endif
  return reinterpret_cast<__m512bh>(bits);
}

}  // namespace amp::cpu::x86
