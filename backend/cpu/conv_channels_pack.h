// What the kernels with lanes along channels share: 16 x 16 transposes, packed images, widths of column blocks.
#pragma once

#include <algorithm>
#include <utility>

#include "backend/cpu/conv_channels.h"
#include "backend/cpu/conv_tiles.h"

namespace amp::conv_tiles {

constexpr int64_t kBlock = 64;  // output channels of a block: rows of packed weights, gradients and sums

// Rows of a register tile over `width` floats, a multiple of 16: 24 sums in vectors of 16.
constexpr int64_t tile_rows(int64_t width) { return width == 64 ? 6 : width == 48 ? 8 : 12; }

// Columns of block b of n output channels.
inline int64_t block_width(int64_t n, int64_t b) { return std::min(kBlock, round_up(n, kLane) - b * kBlock); }
inline int64_t block_count(int64_t n) { return (n + kBlock - 1) / kBlock; }

#ifndef __clang__
template <int N>
struct IndexOf {
  typedef int32_t type __attribute__((vector_size(N * 4)));
};
// Exchanges the off-diagonal squares of S x S inside every square of 2S x 2S.
template <int N, int S, int... J>
AMP_INLINE inline void exchange(typename VectorOf<N>::type (&v)[N], std::integer_sequence<int, J...>) {
  using I = typename IndexOf<N>::type;
  for (int i = 0; i < N; ++i) {
    if (i & S) continue;
    const auto a = v[i], b = v[i | S];
    v[i] = __builtin_shuffle(a, b, I{(J & S ? N + J - S : J)...});
    v[i | S] = __builtin_shuffle(a, b, I{(J & S ? N + J : J + S)...});
  }
}
#endif

// A square of N x N floats: to(j)[i] = from[i * ld + j]. Rows of from at and behind n count as zeros.
template <int N, class To>
AMP_INLINE inline void transpose(const float* from, int64_t ld, int64_t n, const To& to) {
  using V = typename VectorOf<N>::type;
  V v[N];
  for (int i = 0; i < N; ++i) v[i] = i < n ? *reinterpret_cast<const V*>(from + i * ld) : V{};
#ifdef __clang__
  for (int j = 0; j < N; ++j) {
    for (int i = 0; i < N; ++i) to(j)[i] = v[i][j];
  }
#else
  constexpr auto lanes = std::make_integer_sequence<int, N>();
  exchange<N, 1>(v, lanes);
  exchange<N, 2>(v, lanes);
  if constexpr (N > 4) exchange<N, 4>(v, lanes);
  if constexpr (N > 8) exchange<N, 8>(v, lanes);
  for (int j = 0; j < N; ++j) *reinterpret_cast<V*>(to(j)) = v[j];
#endif
}

// rows x columns (16 of each or fewer): to(j)[i] = from[i * ld + j] for j < columns, all 16 of i; zeros behind rows.
template <int Lanes, class To>
AMP_INLINE inline void transpose_block(const float* from, int64_t ld, int64_t rows, int64_t columns, const To& to) {
  if (columns < 16) {
    for (int64_t j = 0; j < columns; ++j) {
      float* row = to(j);
      for (int64_t i = 0; i < 16; ++i) row[i] = i < rows ? from[i * ld + j] : 0.0f;
    }
    return;
  }
  for (int64_t i = 0; i < 16; i += Lanes) {
    for (int64_t j = 0; j < 16; j += Lanes) {
      transpose<Lanes>(from + i * ld + j, ld, rows - i, [&](int64_t k) AMP_INLINE { return to(j + k) + i; });
    }
  }
}

// sums: pixels x channels, `width` apart. Channel m of pixel p goes to out[m * size + to[p]]; to increases.
template <int Lanes>
AMP_INLINE inline void store_pixels(const float* sums, int64_t width, const int64_t* to, int64_t pixels,
                                    int64_t channels, float* out, int64_t size) {
  for (int64_t p = 0; p < pixels; p += 16) {
    const int64_t n = std::min<int64_t>(16, pixels - p);
    const bool neighbours = n == 16 && to[p + 15] - to[p] == 15;
    for (int64_t m = 0; m < channels; m += 16) {
      const int64_t rows = std::min<int64_t>(16, channels - m);
      float* first = out + m * size;
      if (neighbours && rows == 16) {
        transpose_block<Lanes>(sums + p * width + m, width, 16, 16,
                               [&](int64_t i) AMP_INLINE { return first + i * size + to[p]; });
        continue;
      }
      alignas(64) float block[16][16];
      transpose_block<Lanes>(sums + p * width + m, width, n, 16, [&](int64_t i) AMP_INLINE { return block[i]; });
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < n; ++j) first[i * size + to[p + j]] = block[i][j];
      }
    }
  }
}

// Positions in row-major order of a box, as a counter.
struct BoxWalk {
  std::array<int64_t, 3> extent, at;

  BoxWalk(const std::array<int64_t, 3>& of, int64_t first)
      : extent(of), at{first / (of[1] * of[2]), first / of[2] % of[1], first % of[2]} {}
  void next() {
    if (++at[2] < extent[2]) return;
    at[2] = 0;
    if (++at[1] < extent[1]) return;
    at[1] = 0;
    if (++at[0] == extent[0]) at[0] = 0;
  }
};

// One image (its channels of a group) -> packed: rows [begin, end) of (depth, height) of the padded box.
void pack_image_rows(const ChannelPlan&, const float* source, float* to, int64_t begin, int64_t end);

// `count` packed images from `source` on; their channels lie `stride` floats apart.
void pack_images(const ChannelPlan&, const float* source, int64_t count, float* to);

}  // namespace amp::conv_tiles
