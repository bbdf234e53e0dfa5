// bf16 loops of convolutions with AVX512_BF16: rounding to pairs, and register tiles that multiply pairs with fp32
// sums.
// A Tile keeps Rows x Columns vectors of sums in registers.

#include <immintrin.h>

#include "backend/cpu/isa/x86/bf16_pairs.h"
#include "backend/cpu/isa/x86/kernels.h"

namespace amp::cpu::x86 {

namespace {

// Uses intrinsics because a target attribute does not apply to templates that the function calls. Sums are added to
// memory at the end, so that rounding errors grow only with the products of one call.
template <int Columns, int Rows>
struct Tile {
  [[gnu::target("avx512f,avx512bf16")]] static void correlate(const float* image, const int64_t* base,
                                                              const int64_t* offset, int64_t taps, int64_t channels,
                                                              const float* w, float* sums) {
    constexpr int64_t kWidth = Columns * 16;
    __m512 acc[Rows][Columns];
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      for (int j = 0; j < Columns; ++j) acc[r][j] = _mm512_setzero_ps();
    }
    for (int64_t t = 0; t < taps; ++t) {
      const float* at[Rows];
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) at[r] = image + base[r] + offset[t];
      for (int64_t i = 0; i < channels; ++i, w += kWidth) {
        __m512bh v[Columns];
        for (int j = 0; j < Columns; ++j) v[j] = bf16_pairs(_mm512_loadu_si512(w + j * 16));
#pragma GCC unroll 16
        for (int r = 0; r < Rows; ++r) {
          const __m512bh x = bf16_pairs(_mm512_castps_si512(_mm512_set1_ps(at[r][i])));
          for (int j = 0; j < Columns; ++j) acc[r][j] = _mm512_dpbf16_ps(acc[r][j], x, v[j]);
        }
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      for (int j = 0; j < Columns; ++j) {
        float* to = sums + r * kWidth + j * 16;
        _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to), acc[r][j]));
      }
    }
  }

  [[gnu::target("avx512f,avx512bf16")]] static void add_products(const float* x, const int64_t* base, int64_t pixels,
                                                                 const float* dy, float* sums) {
    constexpr int64_t kWidth = Columns * 16;
    __m512 acc[Rows][Columns];
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      for (int j = 0; j < Columns; ++j) acc[r][j] = _mm512_setzero_ps();
    }
    for (int64_t p = 0; p < pixels; ++p, dy += kWidth) {
      const float* at = x + base[p];
      __m512bh v[Columns];
      for (int j = 0; j < Columns; ++j) v[j] = bf16_pairs(_mm512_loadu_si512(dy + j * 16));
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) {
        const __m512bh y = bf16_pairs(_mm512_castps_si512(_mm512_set1_ps(at[r])));
        for (int j = 0; j < Columns; ++j) acc[r][j] = _mm512_dpbf16_ps(acc[r][j], y, v[j]);
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      for (int j = 0; j < Columns; ++j) {
        float* to = sums + r * kWidth + j * 16;
        _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to), acc[r][j]));
      }
    }
  }
};

// Calls fn(Tile) with the tile for this width (tile_rows() in conv_channels_pack.h).
template <class Fn>
void with_tile(int64_t width, const Fn& fn) {
  switch (width) {
    case 64:
      return fn(Tile<4, 6>{});
    case 48:
      return fn(Tile<3, 8>{});
    case 32:
      return fn(Tile<2, 12>{});
    default:
      return fn(Tile<1, 12>{});
  }
}

[[gnu::target("avx512f,avx512bf16")]] void round(const float* x, int64_t n, BFloat16* to) {
  for (int64_t i = 0; i < n; i += 16) {
    const __m256bh y = _mm512_cvtneps_pbh(_mm512_loadu_ps(x + i));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), reinterpret_cast<__m256i>(y));
  }
}

[[gnu::target("avx512f,avx512bw,avx512bf16")]] void round_pairs(const float* low, const float* high, int64_t n,
                                                                float* to) {
  alignas(64) uint16_t order[32];  // makes elements of `low` and `high` adjacent after rounding
  for (uint16_t i = 0; i < 32; ++i) order[i] = static_cast<uint16_t>(i / 2 + i % 2 * 16);
  const __m512i beside = _mm512_load_si512(order);
  for (int64_t i = 0; i < n; i += 16) {
    const __m512 above = high ? _mm512_loadu_ps(high + i) : _mm512_setzero_ps();
    const __m512bh both = _mm512_cvtne2ps_pbh(above, _mm512_loadu_ps(low + i));
    _mm512_storeu_si512(to + i, _mm512_permutexvar_epi16(beside, reinterpret_cast<__m512i>(both)));
  }
}

void correlate(int64_t width, const float* image, const int64_t* base, const int64_t* offset, int64_t taps,
               int64_t channels, const float* w, float* sums) {
  with_tile(width, [&](auto tile) { tile.correlate(image, base, offset, taps, channels, w, sums); });
}
void add_products(int64_t width, const float* x, const int64_t* base, int64_t pixels, const float* dy, float* sums) {
  with_tile(width, [&](auto tile) { tile.add_products(x, base, pixels, dy, sums); });
}

}  // namespace

const PairKernels kPairs{round, round_pairs, correlate, add_products};

}  // namespace amp::cpu::x86
