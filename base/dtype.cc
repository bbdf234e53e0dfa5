// Type names, and conversions between element types. The scalar, F16C and AVX-512 variants of a conversion must give
// the same bits (round to nearest even, NaN stays NaN).
#include "base/dtype.h"

#include <immintrin.h>

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "base/error.h"
#include "base/simd.h"

namespace amp {

namespace {
struct Info {
  DType t;
  int64_t size;
  std::string_view name, short_name, safetensors;
};
constexpr Info kInfo[] = {{DType::f32, 4, "float32", "fp32", "F32"},
                          {DType::f64, 8, "float64", "fp64", "F64"},
                          {DType::f16, 2, "float16", "fp16", "F16"},
                          {DType::bf16, 2, "bfloat16", "bf16", "BF16"},
                          {DType::i8, 1, "int8", "i8", "I8"},
                          {DType::i16, 2, "int16", "i16", "I16"},
                          {DType::i32, 4, "int32", "i32", "I32"},
                          {DType::i64, 8, "int64", "i64", "I64"},
                          {DType::u8, 1, "uint8", "u8", "U8"},
                          {DType::u16, 2, "uint16", "u16", "U16"},
                          {DType::u32, 4, "uint32", "u32", "U32"},
                          {DType::u64, 8, "uint64", "u64", "U64"},
                          {DType::boolean, 1, "bool", "boolean", "BOOL"}};
}  // namespace

int64_t size_of(DType t) { return kInfo[static_cast<int>(t)].size; }
std::string_view name_of(DType t) { return kInfo[static_cast<int>(t)].name; }

DType dtype_from_name(std::string_view name) {
  for (const Info& i : kInfo) {
    if (name == i.name || name == i.short_name || name == i.safetensors) return i.t;
  }
  fail(Exit::usage, "E_DTYPE_NAME", cat("unknown element type '", name, "'"),
       "known: fp32, fp64, fp16, bf16, int32, int64, bool");
}

uint16_t Half::encode(float f) {
  uint32_t x;
  std::memcpy(&x, &f, 4);
  const uint32_t sign = (x >> 16) & 0x8000u;
  x &= 0x7fffffffu;
  if (x > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (x >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to 65536 or more
  if (x < 0x38800000u) {  // a subnormal half: the float addition below rounds it
    float a;
    std::memcpy(&a, &x, 4);
    a += 0.5f;
    uint32_t r;
    std::memcpy(&r, &a, 4);
    return static_cast<uint16_t>(sign | (r - 0x3f000000u));
  }
  x += 0xc8000fffu + ((x >> 13) & 1);
  return static_cast<uint16_t>(sign | (x >> 13));
}

float Half::decode(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t rest = h & 0x7fffu;
  uint32_t x;
  if (rest >= 0x7c00u) {
    x = sign | 0x7f800000u | ((rest & 0x3ffu) << 13);
  } else if (rest >= 0x400u) {
    x = sign | ((rest << 13) + 0x38000000u);
  } else {
    const float f = static_cast<float>(rest) * 5.9604644775390625e-8f;  // 2^-24
    std::memcpy(&x, &f, 4);
    x |= sign;
  }
  float f;
  std::memcpy(&f, &x, 4);
  return f;
}

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
// Converts as BFloat16::encode, but 16 elements at a time: for narrower vectors the compiler needs three times as many
// instructions to pack the results.
[[gnu::target("avx512f,avx512bw")]] int64_t float_to_bf16_v4(const float* src, BFloat16* dst, int64_t n) {
  const __m512i one = _mm512_set1_epi32(1), half = _mm512_set1_epi32(0x7fff), quiet = _mm512_set1_epi32(0x40);
  constexpr __mmask16 all = 0xffff;  // g++ 12 warns about the forms without a mask
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

void to_float(const Half* src, float* dst, int64_t n) {
  int64_t i = cpu_isa() >= Isa::v3 ? half_to_float_v3(src, dst, n) : 0;
  for (; i < n; ++i) dst[i] = Half::decode(src[i].bits);
}

void from_float(const float* src, Half* dst, int64_t n) {
  int64_t i = cpu_isa() >= Isa::v3 ? float_to_half_v3(src, dst, n) : 0;
  for (; i < n; ++i) dst[i].bits = Half::encode(src[i]);
}

void to_float(const BFloat16* src, float* dst, int64_t n) {
  simd([=]() AMP_INLINE {
    for (int64_t i = 0; i < n; ++i) dst[i] = std::bit_cast<float>(static_cast<uint32_t>(src[i].bits) << 16);
  });
}

void from_float(const float* src, BFloat16* dst, int64_t n) {
  const int64_t done = cpu_isa() >= Isa::v4 ? float_to_bf16_v4(src, dst, n) : 0;
  if (done == n) return;
  simd([=]() AMP_INLINE {
    for (int64_t i = done; i < n; ++i) {
      const uint32_t u = std::bit_cast<uint32_t>(src[i]);
      const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1)) >> 16;
      dst[i].bits = static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? ((u >> 16) | 0x40) : rounded);
    }
  });
}

namespace {
template <class T>
struct Wide {
  using type = T;
};
template <>
struct Wide<Half> {
  using type = float;
};
template <>
struct Wide<BFloat16> {
  using type = float;
};

template <class To, class W>
To narrow(W v) {
  if constexpr (std::is_same_v<To, bool>) {
    return v != W(0);
  } else if constexpr (std::is_same_v<To, Half> || std::is_same_v<To, BFloat16>) {
    return To(static_cast<float>(v));
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<W>) {
    if (std::isnan(v)) return To(0);
    constexpr To lo = std::numeric_limits<To>::min(), hi = std::numeric_limits<To>::max();
    if (v <= static_cast<W>(lo)) return lo;
    if (v >= static_cast<W>(hi)) return hi;
    return static_cast<To>(v);
  } else {
    return static_cast<To>(v);
  }
}
}  // namespace

void convert(DType from, const void* src, DType to, void* dst, int64_t n) {
  if (from == to) {
    std::memcpy(dst, src, static_cast<size_t>(n * size_of(from)));
    return;
  }
  if (from == DType::f16 && to == DType::f32)
    return to_float(static_cast<const Half*>(src), static_cast<float*>(dst), n);
  if (from == DType::bf16 && to == DType::f32)
    return to_float(static_cast<const BFloat16*>(src), static_cast<float*>(dst), n);
  if (from == DType::f32 && to == DType::f16)
    return from_float(static_cast<const float*>(src), static_cast<Half*>(dst), n);
  if (from == DType::f32 && to == DType::bf16)
    return from_float(static_cast<const float*>(src), static_cast<BFloat16*>(dst), n);
  with_type(from, [&](auto s) {
    using S = decltype(s);
    using W = typename Wide<S>::type;
    const S* x = static_cast<const S*>(src);
    with_type(to, [&](auto d) {
      using D = decltype(d);
      D* y = static_cast<D*>(dst);
      for (int64_t i = 0; i < n; ++i) y[i] = narrow<D>(static_cast<W>(x[i]));
    });
  });
}

}  // namespace amp
