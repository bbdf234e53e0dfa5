// Transposes lanes of eight elements for packing (gemm/pack.cc).
#include <immintrin.h>

#include "backend/cpu/isa/x86/kernels.h"

namespace amp::cpu::x86 {

[[gnu::target("avx2")]] void transpose_8(const float* const from[8], int64_t n, float* to, int64_t width) {
  for (int64_t p = 0; p < n; p += 8) {
    __m256 r[8], s[8];
    for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(from[i] + p);
    for (int i = 0; i < 8; i += 2) {
      s[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
      s[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
      r[i] = _mm256_shuffle_ps(s[i], s[i + 2], 0x44);
      r[i + 1] = _mm256_shuffle_ps(s[i], s[i + 2], 0xee);
      r[i + 2] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0x44);
      r[i + 3] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0xee);
    }
    for (int i = 0; i < 4; ++i) {
      _mm256_storeu_ps(to + (p + i) * width, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
      _mm256_storeu_ps(to + (p + i + 4) * width, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
  }
}

}  // namespace amp::cpu::x86
