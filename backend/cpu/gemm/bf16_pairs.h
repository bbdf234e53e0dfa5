// Pairs of bf16 as 4-byte elements, and register tiles that multiply them for convolutions. The functions that call
// isa_kernels() require cpu_has_bf16() (base/simd.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "backend/cpu/isa_kernels.h"
#include "backend/cpu/vectors.h"
#include "base/dtype.h"

namespace amp::bf16_pairs {

template <int N>
struct IntegersOf {
  typedef uint16_t half __attribute__((vector_size(N * 2), aligned(2)));
  typedef uint32_t word __attribute__((vector_size(N * 4)));
};

// to[i] = low[i] in the lower half, high[i] in the upper half. If high is null, the upper half is zero.
template <int Lanes>
AMP_INLINE inline void zip(const BFloat16* low, const BFloat16* high, int64_t n, float* to) {
  using Half = typename IntegersOf<Lanes>::half;
  using Word = typename IntegersOf<Lanes>::word;
  using V = typename cpu::VectorOf<Lanes>::type;
  int64_t i = 0;
  for (; i + Lanes <= n; i += Lanes) {
    Word pairs = __builtin_convertvector(*reinterpret_cast<const Half*>(low + i), Word);
    if (high) pairs |= __builtin_convertvector(*reinterpret_cast<const Half*>(high + i), Word) << 16;
    *reinterpret_cast<V*>(to + i) = (V)pairs;
  }
  for (; i < n; ++i) {
    const uint32_t pair = low[i].bits | (high ? static_cast<uint32_t>(high[i].bits) << 16 : 0);
    std::memcpy(to + i, &pair, 4);
  }
}

// Loads N elements that are stored as fp32 or bf16 as a vector of floats. N may be 1. `to` is a reference, because
// wide vectors cannot be returned by value (lanes.h).
template <int N, class V>
AMP_INLINE inline void load(const float* from, V& to) {
  to = *reinterpret_cast<const typename cpu::VectorOf<N>::type*>(from);
}
template <int N, class V>
AMP_INLINE inline void load(const BFloat16* from, V& to) {
  using Word = typename IntegersOf<N>::word;
  to = (V)(__builtin_convertvector(*reinterpret_cast<const typename IntegersOf<N>::half*>(from), Word) << 16);
}

// Rounds a vector, or n numbers, to bf16 as BFloat16::encode does.
template <int N, class V>
AMP_INLINE inline void store(const V& v, BFloat16* to) {
  using Word = typename IntegersOf<N>::word;
  const Word u = (Word)v;
  const Word rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const Word nan = (u >> 16) | 0x40u;
  *reinterpret_cast<typename IntegersOf<N>::half*>(to) =
      __builtin_convertvector((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded, typename IntegersOf<N>::half);
}
template <int Lanes>
AMP_INLINE inline void store(const float* from, int64_t n, BFloat16* to) {
  using V = typename cpu::VectorOf<Lanes>::type;
  int64_t i = 0;
  for (; i + Lanes <= n; i += Lanes) {
    const typename cpu::VectorOf<Lanes>::local v = *reinterpret_cast<const V*>(from + i);
    store<Lanes>(v, to + i);
  }
  for (; i < n; ++i) to[i] = BFloat16(from[i]);
}

template <int Lanes>
AMP_INLINE inline void store(const float* from, int64_t n, float* to) {
  std::copy_n(from, n, to);
}

// Rounds to nearest, ties to even; avx512_bf16 makes subnormal numbers zeros. n is a multiple of 16.
inline void round(const float* x, int64_t n, BFloat16* to) { cpu::isa_kernels().pairs->round(x, n, to); }
// Interleaves the rounded elements of two rows. If high is null, its elements count as zeros.
inline void round_pairs(const float* low, const float* high, int64_t n, float* to) {
  cpu::isa_kernels().pairs->round_pairs(low, high, n, to);
}

// The following functions process one register tile: tile_rows(width) rows (conv_channels_pack.h) of `width` floats, 16
// to 64. `sums`, w and dy have rows of `width` floats.

// sums[pixel] += sum over taps and `channels` of image[base[pixel] + offset[tap] + channel] * w[tap, channel]
inline void correlate(int64_t width, const float* image, const int64_t* base, const int64_t* offset, int64_t taps,
                      int64_t channels, const float* w, float* sums) {
  cpu::isa_kernels().pairs->correlate(width, image, base, offset, taps, channels, w, sums);
}
// sums[row] += sum over pixels of x[base[pixel] + row] * dy[pixel]
inline void add_products(int64_t width, const float* x, const int64_t* base, int64_t pixels, const float* dy,
                         float* sums) {
  cpu::isa_kernels().pairs->add_products(width, x, base, pixels, dy, sums);
}

}  // namespace amp::bf16_pairs
