// Philox4x32-10 for dropout masks (dropout_lanes.h) with AVX-512 and AVX2.
#include <immintrin.h>

#include "backend/cpu/dropout_lanes.h"
#include "backend/cpu/isa/x86/kernels.h"

namespace amp::cpu::x86 {

namespace {
// Philox constants (base/philox.h): the multipliers, and the increments of the keys per round.
constexpr uint32_t kMultiply[2] = {0xD2511F53u, 0xCD9E8D57u}, kAdd[2] = {0x9E3779B9u, 0xBB67AE85u};
}  // namespace

// The word of each group is in the lower half of 64 bits, because the 32-bit multiplication uses only that half.
// The upper half contains leftovers of earlier products.
[[gnu::target("avx512f")]] void dropout_avx512(const DropoutLanes& d, int64_t groups, float* factor) {
  const __m512i m0 = _mm512_set1_epi64(kMultiply[0]), m2 = _mm512_set1_epi64(kMultiply[1]);
  const __m512i threshold = _mm512_set1_epi32(static_cast<int32_t>(d.threshold));
  const __m512i first = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11),
                last = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
  const __m512 keep = _mm512_set1_ps(d.keep);
  constexpr __mmask8 kAll = 0xFF;  // for masked intrinsics: g++ 12 gives false warnings for unmasked ones
  constexpr __mmask16 kOdd = 0xAAAA;
  constexpr int kXor = 0x96;  // ternary logic: a ^ b ^ c
  __m512i count = _mm512_add_epi64(_mm512_set1_epi64(d.counter.v[0]), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
  for (int64_t g = 0; g < groups; g += 8, factor += 32) {
    __m512i w[4] = {count};
    for (int i = 1; i < 4; ++i) w[i] = _mm512_set1_epi64(d.counter.v[i]);
    count = _mm512_add_epi64(count, _mm512_set1_epi64(8));
    uint32_t key0 = d.key0, key1 = d.key1;
    for (int round = 0; round < 10; ++round, key0 += kAdd[0], key1 += kAdd[1]) {
      const __m512i a = _mm512_maskz_mul_epu32(kAll, m0, w[0]), b = _mm512_maskz_mul_epu32(kAll, m2, w[2]);
      w[0] = _mm512_ternarylogic_epi64(_mm512_maskz_srli_epi64(kAll, b, 32), w[1], _mm512_set1_epi64(key0), kXor);
      w[2] = _mm512_ternarylogic_epi64(_mm512_maskz_srli_epi64(kAll, a, 32), w[3], _mm512_set1_epi64(key1), kXor);
      w[1] = b;
      w[3] = a;
    }
    const __m512i x = _mm512_mask_blend_epi32(kOdd, w[0], _mm512_maskz_slli_epi64(kAll, w[1], 32)),
                  y = _mm512_mask_blend_epi32(kOdd, w[2], _mm512_maskz_slli_epi64(kAll, w[3], 32));
    const __m512i words[2] = {_mm512_permutex2var_epi64(x, first, y), _mm512_permutex2var_epi64(x, last, y)};
    for (int i = 0; i < 2; ++i)
      _mm512_storeu_ps(factor + 16 * i, _mm512_maskz_mov_ps(_mm512_cmpge_epu32_mask(words[i], threshold), keep));
  }
}

// AVX2 version of dropout_avx512.
[[gnu::target("avx2")]] void dropout_avx2(const DropoutLanes& d, int64_t groups, float* factor) {
  const __m256i m0 = _mm256_set1_epi64x(kMultiply[0]), m2 = _mm256_set1_epi64x(kMultiply[1]);
  const __m256i threshold = _mm256_set1_epi32(static_cast<int32_t>(d.threshold)), low = _mm256_set1_epi64x(0xffffffffu);
  const __m256 keep = _mm256_set1_ps(d.keep);
  __m256i count = _mm256_add_epi64(_mm256_set1_epi64x(d.counter.v[0]), _mm256_setr_epi64x(0, 1, 2, 3));
  for (int64_t g = 0; g < groups; g += 8, factor += 32) {
    __m256i v[2][4];
    for (auto& w : v) {
      w[0] = count;
      for (int i = 1; i < 4; ++i) w[i] = _mm256_set1_epi64x(d.counter.v[i]);
      count = _mm256_add_epi64(count, _mm256_set1_epi64x(4));
    }
    uint32_t key0 = d.key0, key1 = d.key1;
    for (int round = 0; round < 10; ++round, key0 += kAdd[0], key1 += kAdd[1]) {
      const __m256i k0 = _mm256_set1_epi64x(key0), k1 = _mm256_set1_epi64x(key1);
      for (auto& w : v) {
        const __m256i a = _mm256_mul_epu32(m0, w[0]), b = _mm256_mul_epu32(m2, w[2]);
        w[0] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(b, 32), w[1]), k0);
        w[2] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(a, 32), w[3]), k1);
        w[1] = b;
        w[3] = a;
      }
    }
    float* to = factor;
    for (const auto& w : v) {
      const __m256i x = _mm256_or_si256(_mm256_and_si256(w[0], low), _mm256_slli_epi64(w[1], 32)),
                    y = _mm256_or_si256(_mm256_and_si256(w[2], low), _mm256_slli_epi64(w[3], 32));
      // even: groups 0 and 2; odd: 1 and 3.
      const __m256i even = _mm256_unpacklo_epi64(x, y), odd = _mm256_unpackhi_epi64(x, y);
      for (const __m256i words :
           {_mm256_permute2x128_si256(even, odd, 0x20), _mm256_permute2x128_si256(even, odd, 0x31)}) {
        const __m256i kept = _mm256_cmpeq_epi32(_mm256_max_epu32(words, threshold), words);
        _mm256_storeu_ps(to, _mm256_and_ps(_mm256_castsi256_ps(kept), keep));
        to += 8;
      }
    }
  }
}

}  // namespace amp::cpu::x86
