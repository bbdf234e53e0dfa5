// Elements that are held in registers in their storage type. Converting an element waits for the memory. A loop that
// fetches several elements before it unpacks any therefore keeps more loads in flight.
#pragma once

#include "backend/cuda/ref.cuh"

// <device>: cmake/functors.cmake copies this section into generated kernels
namespace amp::cuda {

// W neighboring elements that unpack to T. For T = float, the storage is fp32, fp16 or bf16, and W is 1 or 4. If W is
// 4, the data is aligned to four elements and the index is a multiple of 4. Other T allow any storage.
template <class T, int W>
struct Raw {
  T value[W];
};
template <int W>
struct Raw<float, W> {
  static_assert(W == 1 || W == 4);
  uint32_t word[W];
};

// Types that may alias any storage.
using Word = uint32_t __attribute__((may_alias));
struct __attribute__((may_alias, aligned(16))) FourWords {
  uint32_t w[4];
};
struct __attribute__((may_alias, aligned(8))) TwoWords {
  uint32_t w[2];
};

template <class T, int W>
DEV Raw<T, W> fetch(const Ref& r, int64_t i) {
  Raw<T, W> v;
  if constexpr (!std::is_same_v<T, float>) {
    for (int k = 0; k < W; ++k) v.value[k] = load<T>(r, i + k);
  } else if constexpr (W == 1) {
    v.word[0] = r.type == DType::f32 ? static_cast<const Word*>(r.data)[i] : static_cast<const uint16_t*>(r.data)[i];
  } else if (r.type == DType::f32) {
    const FourWords f = static_cast<const FourWords*>(r.data)[i / 4];
    for (int k = 0; k < 4; ++k) v.word[k] = f.w[k];
  } else {
    const TwoWords f = static_cast<const TwoWords*>(r.data)[i / 4];
    v.word[0] = f.w[0];
    v.word[1] = f.w[1];
    v.word[2] = v.word[3] = 0;
  }
  return v;
}

DEV float bits_to_float(uint32_t u) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(u);
#else
  float f;
  std::memcpy(&f, &u, sizeof f);
  return f;
#endif
}

template <class T, int W>
DEV void unpack(const Ref& r, const Raw<T, W>& v, T (&out)[W]) {
  if constexpr (!std::is_same_v<T, float>) {
    for (int k = 0; k < W; ++k) out[k] = v.value[k];
  } else if (r.type == DType::f32) {
    for (int k = 0; k < W; ++k) out[k] = bits_to_float(v.word[k]);
  } else {
    for (int k = 0; k < W; ++k) {
      const uint16_t h = static_cast<uint16_t>(v.word[k / 2] >> (k % 2 * 16));
      out[k] = r.type == DType::f16 ? half_to_float(h) : bf16_to_float(h);
    }
  }
}

DEV uint32_t float_to_bits(float f) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(f);
#else
  uint32_t u;
  std::memcpy(&u, &f, sizeof u);
  return u;
#endif
}

// Loads W elements of fp32, fp16 or bf16 as floats. As in fetch(), other types are not supported, because each check
// of a type would add code at every call.
template <int W>
DEV void load_some(const Ref& r, int64_t i, float (&out)[W]) {
  unpack(r, fetch<float, W>(r, i), out);
}
template <int W>
DEV void store_some(const Ref& r, int64_t i, const float (&v)[W]) {
  static_assert(W == 1 || W == 4);
  if (r.type == DType::f32) {
    if constexpr (W == 1)
      static_cast<float*>(r.data)[i] = v[0];
    else
      static_cast<FourWords*>(r.data)[i / 4] =
          FourWords{{float_to_bits(v[0]), float_to_bits(v[1]), float_to_bits(v[2]), float_to_bits(v[3])}};
    return;
  }
  uint16_t h[W];
  for (int k = 0; k < W; ++k) h[k] = r.type == DType::f16 ? float_to_half(v[k]) : float_to_bf16(v[k]);
  if constexpr (W == 1)
    static_cast<uint16_t*>(r.data)[i] = h[0];
  else
    static_cast<TwoWords*>(r.data)[i / 4] =
        TwoWords{{h[0] | static_cast<uint32_t>(h[1]) << 16, h[2] | static_cast<uint32_t>(h[3]) << 16}};
}

// Calls f(0), f(1), ... f(N - 1) with constants, so that arrays that f indexes stay in registers.
template <int N, class F>
DEV void unrolled(const F& f) {
  if constexpr (N > 0) {
    unrolled<N - 1>(f);
    f(std::integral_constant<int, N - 1>{});
  }
}

// Returns i / d for non-negative numbers; 32-bit division is several times faster.
DEV int64_t quotient(int64_t i, int64_t d) {
  if ((i | d) <= 0xffffffffll) return static_cast<unsigned>(i) / static_cast<unsigned>(d);
  return i / d;
}

}  // namespace amp::cuda
// </device>
