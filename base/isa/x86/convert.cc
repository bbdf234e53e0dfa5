// Conversions of fp16 with F16C, and of bf16 with AVX-512.
#include <immintrin.h>

#include "base/isa/isa.h"
#include "base/simd.h"

namespace amp::isa {

namespace {
[[gnu::target("arch=x86-64-v3")]] int64_t half_to_float_v3(const Half* src, float* dst, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(src + i))));
  }
  return i;
}
[[gnu::target("arch=x86-64-v3")]] int64_t float_to_half_v3(const float* src, Half* dst, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  return i;
}
// Converts as BFloat16::encode does, 16 elements at a time. With narrower vectors the compiler would need three times
// as many instructions to pack the results.
[[gnu::target("avx512f,avx512bw")]] int64_t float_to_bf16_v4(const float* src, BFloat16* dst, int64_t n) {
  const __m512i one = _mm512_set1_epi32(1), half = _mm512_set1_epi32(0x7fff), quiet = _mm512_set1_epi32(0x40);
  constexpr __mmask16 all = 0xffff;  // passed because g++ 12 warns about the intrinsics without a mask
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m512 x = _mm512_loadu_ps(src + i);
    const __m512i u = _mm512_castps_si512(x), high = _mm512_maskz_srli_epi32(all, u, 16);
    const __m512i sum = _mm512_add_epi32(u, _mm512_add_epi32(half, _mm512_and_si512(high, one)));
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    const __m512i bits = _mm512_mask_or_epi32(_mm512_maskz_srli_epi32(all, sum, 16), nan, high, quiet);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst + i), _mm512_maskz_cvtepi32_epi16(all, bits));
  }
  return i;
}
}  // namespace

int64_t to_float(const Half* src, float* dst, int64_t n) {
  return cpu_isa() >= Isa::v3 ? half_to_float_v3(src, dst, n) : 0;
}
int64_t from_float(const float* src, Half* dst, int64_t n) {
  return cpu_isa() >= Isa::v3 ? float_to_half_v3(src, dst, n) : 0;
}
int64_t from_float(const float* src, BFloat16* dst, int64_t n) {
  return cpu_isa() >= Isa::v4 ? float_to_bf16_v4(src, dst, n) : 0;
}

}  // namespace amp::isa
