// Element types, and the two 16-bit floating-point types. These are storage types: arithmetic is done in float.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string_view>

// HD marks functors and functions that CPU and CUDA backends share.
#ifdef __CUDACC__
#define HD __host__ __device__
#else
#define HD
#endif

namespace amp {

enum class DType : uint8_t { f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, boolean };

int64_t size_of(DType t);           // bytes per element
std::string_view name_of(DType t);  // "float32", "float16", "bfloat16", "int64", "bool", ...
// Returns the type named "fp32", "float32", "F32" (safetensors) or similar. Throws E_DTYPE_NAME (Exit::usage) for other
// names.
DType dtype_from_name(std::string_view name);

inline bool is_float(DType t) { return t <= DType::bf16; }
inline bool is_low(DType t) { return t == DType::f16 || t == DType::bf16; }

// IEEE binary16, round to nearest even; overflow becomes infinity.
struct Half {
  uint16_t bits = 0;
  Half() = default;
  explicit Half(float f) : bits(encode(f)) {}
  explicit operator float() const { return decode(bits); }
  static uint16_t encode(float f);
  static float decode(uint16_t h);
};

// bfloat16: the upper half of a binary32, round to nearest even.
struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float f) : bits(encode(f)) {}
  explicit operator float() const { return decode(bits); }
  static uint16_t encode(float f) {
    uint32_t u;
    std::memcpy(&u, &f, 4);
    if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((u >> 16) | 0x40);  // NaN stays NaN
    u += 0x7fffu + ((u >> 16) & 1);
    return static_cast<uint16_t>(u >> 16);
  }
  static float decode(uint16_t b) {
    const uint32_t u = static_cast<uint32_t>(b) << 16;
    float f;
    std::memcpy(&f, &u, 4);
    return f;
  }
};

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<Half> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::i8;
};
template <>
struct DTypeOf<int16_t> {
  static constexpr DType value = DType::i16;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct DTypeOf<uint16_t> {
  static constexpr DType value = DType::u16;
};
template <>
struct DTypeOf<uint32_t> {
  static constexpr DType value = DType::u32;
};
template <>
struct DTypeOf<uint64_t> {
  static constexpr DType value = DType::u64;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::boolean;
};

// Calls f(T{}) with the C++ type of t.
template <class F>
decltype(auto) with_type(DType t, F&& f) {
  switch (t) {
    case DType::f32:
      return f(float{});
    case DType::f64:
      return f(double{});
    case DType::f16:
      return f(Half{});
    case DType::bf16:
      return f(BFloat16{});
    case DType::i8:
      return f(int8_t{});
    case DType::i16:
      return f(int16_t{});
    case DType::i32:
      return f(int32_t{});
    case DType::i64:
      return f(int64_t{});
    case DType::u8:
      return f(uint8_t{});
    case DType::u16:
      return f(uint16_t{});
    case DType::u32:
      return f(uint32_t{});
    case DType::u64:
      return f(uint64_t{});
    case DType::boolean:
      return f(bool{});
  }
  __builtin_unreachable();
}

// Bulk conversions, vectorized for the CPU in use (F16C; shifts for bf16).
void to_float(const Half* src, float* dst, int64_t n);
void to_float(const BFloat16* src, float* dst, int64_t n);
void from_float(const float* src, Half* dst, int64_t n);
void from_float(const float* src, BFloat16* dst, int64_t n);

// Element-wise conversion between any two types, with the semantics of ONNX Cast: float to integer truncates toward
// zero and saturates; x to bool is x != 0.
void convert(DType from, const void* src, DType to, void* dst, int64_t n);

}  // namespace amp
