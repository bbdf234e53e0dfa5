// Ref: a tensor in a kernel, as a pointer and a storage type. Loads and stores convert from and to the storage type.
// The type is the same for all threads, so that branches on it do not diverge.
#pragma once

#include "backend/cuda/thread.cuh"
#include "backend/kernel.h"

// <device>: cmake/functors.cmake copies this section into generated kernels
namespace amp::cuda {

DEV float half_to_float(uint16_t h) {
#ifdef __CUDA_ARCH__
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
#else
  return Half::decode(h);
#endif
}
DEV uint16_t float_to_half(float f) {
#ifdef __CUDA_ARCH__
  uint16_t h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
#else
  return Half::encode(f);
#endif
}
DEV float bf16_to_float(uint16_t h) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(static_cast<unsigned>(h) << 16);
#else
  return BFloat16::decode(h);
#endif
}
DEV uint16_t float_to_bf16(float f) {
#ifdef __CUDA_ARCH__
  uint16_t h;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
#else
  return BFloat16::encode(f);
#endif
}

struct Ref {
  void* data = nullptr;
  DType type = DType::f32;

  Ref() = default;
  Ref(const Tensor& t) : data(t.data), type(t.dtype) {}  // NOLINT: a Tensor is a Ref with dims
  HD explicit operator bool() const { return data != nullptr; }
};

// Returns element i as T. T is float or double for any storage type, or an integer type for integer storage.
template <class T>
DEV T load(const Ref& r, int64_t i) {
  switch (r.type) {
    case DType::f32:
      return static_cast<T>(static_cast<const float*>(r.data)[i]);
    case DType::f16:
      return static_cast<T>(half_to_float(static_cast<const uint16_t*>(r.data)[i]));
    case DType::bf16:
      return static_cast<T>(bf16_to_float(static_cast<const uint16_t*>(r.data)[i]));
    case DType::f64:
      return static_cast<T>(static_cast<const double*>(r.data)[i]);
    case DType::i64:
      return static_cast<T>(static_cast<const int64_t*>(r.data)[i]);
    case DType::i32:
      return static_cast<T>(static_cast<const int32_t*>(r.data)[i]);
    case DType::i16:
      return static_cast<T>(static_cast<const int16_t*>(r.data)[i]);
    case DType::i8:
      return static_cast<T>(static_cast<const int8_t*>(r.data)[i]);
    case DType::u64:
      return static_cast<T>(static_cast<const uint64_t*>(r.data)[i]);
    case DType::u32:
      return static_cast<T>(static_cast<const uint32_t*>(r.data)[i]);
    case DType::u16:
      return static_cast<T>(static_cast<const uint16_t*>(r.data)[i]);
    case DType::u8:
      return static_cast<T>(static_cast<const uint8_t*>(r.data)[i]);
    case DType::boolean:
      return static_cast<T>(static_cast<const uint8_t*>(r.data)[i] != 0);
  }
  return T(0);
}

// Implements ONNX Cast from a floating number to an integer: towards zero, saturating; NaN becomes 0.
template <class I, class T>
DEV I to_integer(T v) {
  if constexpr (std::is_floating_point_v<T>) {
    constexpr I low = std::is_signed_v<I> ? static_cast<I>(I(1) << (8 * sizeof(I) - 1)) : I(0);
    constexpr I high = static_cast<I>(~low);
    const double x = static_cast<double>(v);
    if (x != x) return I(0);
    if (x <= static_cast<double>(low)) return low;
    if (x >= static_cast<double>(high)) return high;
    return static_cast<I>(x);
  } else {
    return static_cast<I>(v);
  }
}

// Stores v as element i. 16-bit floating types round to nearest even; integers convert as in to_integer().
template <class T>
DEV void store(const Ref& r, int64_t i, T v) {
  switch (r.type) {
    case DType::f32:
      static_cast<float*>(r.data)[i] = static_cast<float>(v);
      return;
    case DType::f16:
      static_cast<uint16_t*>(r.data)[i] = float_to_half(static_cast<float>(v));
      return;
    case DType::bf16:
      static_cast<uint16_t*>(r.data)[i] = float_to_bf16(static_cast<float>(v));
      return;
    case DType::f64:
      static_cast<double*>(r.data)[i] = static_cast<double>(v);
      return;
    case DType::i64:
      static_cast<int64_t*>(r.data)[i] = to_integer<int64_t>(v);
      return;
    case DType::i32:
      static_cast<int32_t*>(r.data)[i] = to_integer<int32_t>(v);
      return;
    case DType::i16:
      static_cast<int16_t*>(r.data)[i] = to_integer<int16_t>(v);
      return;
    case DType::i8:
      static_cast<int8_t*>(r.data)[i] = to_integer<int8_t>(v);
      return;
    case DType::u64:
      static_cast<uint64_t*>(r.data)[i] = to_integer<uint64_t>(v);
      return;
    case DType::u32:
      static_cast<uint32_t*>(r.data)[i] = to_integer<uint32_t>(v);
      return;
    case DType::u16:
      static_cast<uint16_t*>(r.data)[i] = to_integer<uint16_t>(v);
      return;
    case DType::u8:
      static_cast<uint8_t*>(r.data)[i] = to_integer<uint8_t>(v);
      return;
    case DType::boolean:
      static_cast<uint8_t*>(r.data)[i] = v != T(0) ? 1 : 0;
      return;
  }
}

// Loads elements i to i + 3 at once. i is a multiple of 4, the data is aligned to four elements, T is float or double.
template <class T>
DEV void load4(const Ref& r, int64_t i, T (&out)[4]) {
  if (r.type == DType::f32) {
    struct alignas(16) Four {
      float v[4];
    };
    const Four f = static_cast<const Four*>(r.data)[i / 4];
    for (int k = 0; k < 4; ++k) out[k] = static_cast<T>(f.v[k]);
  } else if (r.type == DType::f16 || r.type == DType::bf16) {
    struct alignas(8) Four {
      uint16_t v[4];
    };
    const Four f = static_cast<const Four*>(r.data)[i / 4];
    if (r.type == DType::f16) {
      for (int k = 0; k < 4; ++k) out[k] = static_cast<T>(half_to_float(f.v[k]));
    } else {
      for (int k = 0; k < 4; ++k) out[k] = static_cast<T>(bf16_to_float(f.v[k]));
    }
  } else {
    for (int k = 0; k < 4; ++k) out[k] = load<T>(r, i + k);
  }
}
template <class T>
DEV void store4(const Ref& r, int64_t i, const T (&v)[4]) {
  if (r.type == DType::f32) {
    struct alignas(16) Four {
      float v[4];
    };
    static_cast<Four*>(r.data)[i / 4] =
        Four{{static_cast<float>(v[0]), static_cast<float>(v[1]), static_cast<float>(v[2]), static_cast<float>(v[3])}};
  } else if (r.type == DType::f16 || r.type == DType::bf16) {
    struct alignas(8) Four {
      uint16_t v[4];
    };
    Four f;
    for (int k = 0; k < 4; ++k)
      f.v[k] = r.type == DType::f16 ? float_to_half(static_cast<float>(v[k])) : float_to_bf16(static_cast<float>(v[k]));
    static_cast<Four*>(r.data)[i / 4] = f;
  } else {  // no loop: the compiler may move arrays that a loop indexes out of the registers
    store(r, i, v[0]);
    store(r, i + 1, v[1]);
    store(r, i + 2, v[2]);
    store(r, i + 3, v[3]);
  }
}

constexpr int kMaxRank = 8;

// Extents and strides that are passed to a kernel. make_axes() omits axes of extent 1 and merges neighboring axes if
// one stride describes both.
struct Axes {
  int rank = 0;
  int64_t extent[kMaxRank] = {};
  int64_t stride[kMaxRank] = {};

  // Returns the offset of element i of the row-major iteration over the extents.
  DEV int64_t offset(int64_t i) const {
    int64_t o = 0;
    if (i <= 0xffffffffll) {  // 32-bit division is several times faster
      unsigned u = static_cast<unsigned>(i);
      ROLLED for (int d = rank - 1; d >= 0; --d) {
        const unsigned e = static_cast<unsigned>(extent[d]);
        o += static_cast<int64_t>(u % e) * stride[d];
        u /= e;
      }
      return o;
    }
    ROLLED for (int d = rank - 1; d >= 0; --d) {
      o += i % extent[d] * stride[d];
      i /= extent[d];
    }
    return o;
  }
};

}  // namespace amp::cuda
// </device>

namespace amp::cuda {

// Returns the axes of a row-major iteration over dims with the given strides. Merges axes where possible. Throws
// E_CUDA_SIZE (Exit::unsupported) if more than kMaxRank axes remain.
inline Axes make_axes(const Dims& dims, const Dims& strides) {
  Axes a;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    if (a.rank > 0 && a.stride[a.rank - 1] == strides[d] * dims[d]) {
      a.extent[a.rank - 1] *= dims[d];
      a.stride[a.rank - 1] = strides[d];
      continue;
    }
    if (a.rank == kMaxRank)
      fail(Exit::unsupported, "E_CUDA_SIZE",
           cat("a CUDA kernel takes at most ", kMaxRank, " axes that cannot be merged; dims are ", to_string(dims)));
    a.extent[a.rank] = dims[d];
    a.stride[a.rank++] = strides[d];
  }
  return a;
}

}  // namespace amp::cuda
