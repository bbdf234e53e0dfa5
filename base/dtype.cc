// Type names, and conversions between element types. The scalar code and the instructions of each architecture
// (base/isa) must give the same bits (round to nearest even, NaN stays NaN).
#include "base/dtype.h"

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "base/error.h"
#include "base/isa/isa.h"
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
  if (x >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and larger numbers round to infinity
  if (x < 0x38800000u) {  // the result is subnormal in fp16: the addition rounds it
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
    // 2^-24, the unit of fp16's subnormal numbers.
    const float f = static_cast<float>(rest) * 5.9604644775390625e-8f;
    std::memcpy(&x, &f, 4);
    x |= sign;
  }
  float f;
  std::memcpy(&f, &x, 4);
  return f;
}

void to_float(const Half* src, float* dst, int64_t n) {
  int64_t i = isa::to_float(src, dst, n);
  for (; i < n; ++i) dst[i] = Half::decode(src[i].bits);
}

void from_float(const float* src, Half* dst, int64_t n) {
  int64_t i = isa::from_float(src, dst, n);
  for (; i < n; ++i) dst[i].bits = Half::encode(src[i]);
}

void to_float(const BFloat16* src, float* dst, int64_t n) {
  simd([=]() AMP_INLINE {
    for (int64_t i = 0; i < n; ++i) dst[i] = std::bit_cast<float>(static_cast<uint32_t>(src[i].bits) << 16);
  });
}

void from_float(const float* src, BFloat16* dst, int64_t n) {
  const int64_t done = isa::from_float(src, dst, n);
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
