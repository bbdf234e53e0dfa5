// Shared code of the Winograd convolutions: transforms of a tile, division of images into tiles, and the matrix product
// for one place (an element of a transformed tile).
#pragma once

#include <algorithm>
#include <array>

#include "backend/cpu/conv/conv_tiles.h"
#include "backend/cpu/gemm/bf16_pairs.h"
#include "backend/cpu/gemm/tile_product.h"
#include "backend/cpu/lanes.h"
#include "backend/cpu/stored.h"

namespace amp::winograd {

// Transforms along one axis by the matrices of conv_winograd.h. A tile has kOut outputs and kIn = kOut + 2 inputs.
//
// F(2, 3): points 0, 1, -1 and infinity. The rounding error equals that of plain fp32 sums.
struct F2 {
  static constexpr int kOut = 2, kIn = 4, kPlaces = 16;

  template <class T>
  AMP_INLINE static void input(const T (&d)[4], T (&v)[4]) {  // multiplies by B'
    v[0] = d[0] - d[2], v[1] = d[1] + d[2], v[2] = d[2] - d[1], v[3] = d[1] - d[3];
  }
  template <class T>
  AMP_INLINE static void weight(const T (&g)[3], T (&u)[4]) {  // multiplies by G
    const T ends = (g[0] + g[2]) * 0.5f, middle = g[1] * 0.5f;
    u[0] = g[0], u[1] = ends + middle, u[2] = ends - middle, u[3] = g[2];
  }
  template <class T>
  AMP_INLINE static void output(const T (&m)[4], T (&y)[2]) {  // multiplies by A'
    y[0] = m[0] + m[1] + m[2], y[1] = m[1] - m[2] - m[3];
  }
  template <class T>
  AMP_INLINE static void output_grad(const T (&y)[2], T (&d)[4]) {  // multiplies by A
    d[0] = y[0], d[1] = y[0] + y[1], d[2] = y[0] - y[1], d[3] = -y[1];
  }
  template <class T>
  AMP_INLINE static void weight_grad(const T (&u)[4], T (&g)[3]) {  // multiplies by G'
    const T ends = (u[1] + u[2]) * 0.5f;
    g[0] = u[0] + ends, g[1] = (u[1] - u[2]) * 0.5f, g[2] = ends + u[3];
  }
};

// F(4, 3): points 0, a, -a, b, -b and infinity with a = 1 / sqrt(2), b = sqrt(2) (a^2 = 1/2, b^2 = 2). The rounding
// error is half of the error with the usual points 1 and 2. It is about 3 to 5 times the error of plain sums in blocks,
// and about the error of one long fp32 sum over taps and 64 to 256 channels.
struct F4 {
  static constexpr int kOut = 4, kIn = 6, kPlaces = 36;
  static constexpr float a = 0.70710678118654752f, b = 1.41421356237309505f;

  template <class T>
  AMP_INLINE static void input(const T (&d)[6], T (&v)[6]) {
    v[0] = d[0] - d[2] * 2.5f + d[4];
    // Even and odd part of the transform at the points a and -a: x^4 - b^2 x^2 and a (x^3 - b^2 x), where x^i stands
    // for d[i].
    const T even_a = d[4] - d[2] * 2.0f, odd_a = (d[3] - d[1] * 2.0f) * a;
    v[1] = even_a + odd_a, v[2] = even_a - odd_a;
    const T even_b = d[4] - d[2] * 0.5f, odd_b = (d[3] - d[1] * 0.5f) * b;
    v[3] = even_b + odd_b, v[4] = even_b - odd_b;
    v[5] = d[1] - d[3] * 2.5f + d[5];
  }
  // Divisors at the points 0, +-a, +-b: 1, 2 a^2 (a^2 - b^2) = -3/2, 2 b^2 (b^2 - a^2) = 6.
  template <class T>
  AMP_INLINE static void weight(const T (&g)[3], T (&u)[6]) {
    const T even_a = (g[0] + g[2] * 0.5f) * (-2.0f / 3), odd_a = g[1] * (-2.0f / 3 * a);
    const T even_b = (g[0] + g[2] * 2.0f) * (1.0f / 6), odd_b = g[1] * (1.0f / 6 * b);
    u[0] = g[0], u[1] = even_a + odd_a, u[2] = even_a - odd_a, u[3] = even_b + odd_b, u[4] = even_b - odd_b,
    u[5] = g[2];
  }
  template <class T>
  AMP_INLINE static void output(const T (&m)[6], T (&y)[4]) {
    const T sum_a = m[1] + m[2], dif_a = (m[1] - m[2]) * a, sum_b = m[3] + m[4], dif_b = (m[3] - m[4]) * b;
    y[0] = m[0] + sum_a + sum_b, y[1] = dif_a + dif_b;
    y[2] = sum_a * 0.5f + sum_b * 2.0f, y[3] = dif_a * 0.5f + dif_b * 2.0f + m[5];
  }
  template <class T>
  AMP_INLINE static void output_grad(const T (&y)[4], T (&d)[6]) {
    const T even_a = y[0] + y[2] * 0.5f, odd_a = (y[1] + y[3] * 0.5f) * a;
    const T even_b = y[0] + y[2] * 2.0f, odd_b = (y[1] + y[3] * 2.0f) * b;
    d[0] = y[0], d[1] = even_a + odd_a, d[2] = even_a - odd_a, d[3] = even_b + odd_b, d[4] = even_b - odd_b,
    d[5] = y[3];
  }
  template <class T>
  AMP_INLINE static void weight_grad(const T (&u)[6], T (&g)[3]) {
    const T sum_a = (u[1] + u[2]) * (-2.0f / 3), sum_b = (u[3] + u[4]) * (1.0f / 6);
    g[0] = u[0] + sum_a + sum_b;
    g[1] = (u[1] - u[2]) * (-2.0f / 3 * a) + (u[3] - u[4]) * (1.0f / 6 * b);
    g[2] = sum_a * 0.5f + sum_b * 2.0f + u[5];
  }
};

using cpu::kRows;
using cpu::multiply;

constexpr int64_t kMostTiles = 64;  // maximum number of tiles per block (Tiling)
constexpr int64_t kLine = 16;       // floats per cache line

// Calls fn with a pointer to the stored elements from `element` on, whose type is fp32 or bf16.
template <class Of, class Fn>
AMP_INLINE inline void with_stored(const Of& of, int64_t element, const Fn& fn) {
  constexpr bool kConst = std::is_same_v<Of, Stored>;
  if (of.dtype == DType::bf16)
    fn(static_cast<std::conditional_t<kConst, const BFloat16, BFloat16>*>(of.at(element)));
  else
    fn(static_cast<std::conditional_t<kConst, const float, float>*>(of.at(element)));
}

// Division of the outputs of all images into tiles, and of tiles into blocks. A block is several rows of tiles (rows
// are counted over the images), or a part of one row. The tiles of a block are contiguous in memory, with a capacity of
// `width` tiles, a multiple of 16.
struct Tiling {
  int64_t images, out_h, out_w;
  int64_t rows, columns;                     // rows and columns of tiles per image
  int64_t block_rows, block_columns, width;  // rows and columns of tiles per block; capacity of a block in tiles

  Tiling(int64_t n, int64_t height, int64_t width_out, int64_t tile, int64_t most)
      : images(n),
        out_h(height),
        out_w(width_out),
        rows((height + tile - 1) / tile),
        columns((width_out + tile - 1) / tile) {
    block_columns = std::min(columns, most);
    block_rows = std::clamp<int64_t>(most / block_columns, 1, std::max<int64_t>(1, images * rows));
    width = conv_tiles::round_up(block_rows * block_columns, conv_tiles::kLane);
  }

  int64_t column_blocks() const { return (columns + block_columns - 1) / block_columns; }
  int64_t blocks() const { return (images * rows + block_rows - 1) / block_rows * column_blocks(); }
  int64_t tiles() const { return images * rows * columns; }
  // Floats from one channel's tiles to the next. The last vector of a channel may extend past `width`.
  int64_t pitch() const { return width + conv_tiles::kLane; }

  struct Block {
    int64_t row, rows, column, columns;
    int64_t tiles() const { return rows * columns; }
  };
  Block block(int64_t i) const {
    const int64_t row = i / column_blocks() * block_rows, column = i % column_blocks() * block_columns;
    return {row, std::min(block_rows, images * rows - row), column, std::min(block_columns, columns - column)};
  }
};

// Size and padding of a channel's plane (the channel in one image) from which tiles are read. pad_h, pad_w: zeros
// before the first row and column.
struct Planes {
  int64_t height, width, pad_h, pad_w;
  int64_t image;  // floats between the planes of consecutive images
};

// Transforms one row or column of a tile to kIn elements. Rows is the length of d: kIn for overlapping windows of
// inputs, or kOut for gradients of outputs.
template <class F, int Rows, class T>
AMP_INLINE inline void along_axis(const T (&d)[Rows], T (&v)[F::kIn]) {
  if constexpr (Rows == F::kIn)
    F::input(d, v);
  else
    F::output_grad(d, v);
}

// Transforms a block's tiles in one channel. Place (i, k) of tile t is written to v[(i * kIn + k) * place + t];
// vectors may write up to 16 floats past the last tile. from: the channel's plane in the first image. Prefetches
// the next channel's rows, because planes are too far apart for the hardware prefetcher.
template <class F, int Rows, int Lanes, class S>
AMP_INLINE inline void transform(const Tiling& t, const Tiling::Block& block, const Planes& p, const S* from, float* v,
                                 int64_t place) {
  using V = typename cpu::VectorOf<Lanes>::type;
  using Local = typename cpu::VectorOf<Lanes>::local;
  constexpr int kOut = F::kOut, kIn = F::kIn, kOverlap = Rows - kOut;
  constexpr int64_t kLength = kMostTiles * kOut + kOverlap + 8 * Lanes;
  constexpr int64_t kPhase = kMostTiles + 2 * Lanes;
  static const S zeros[kLength] = {};
  float rows[kIn][kLength];         // transformed along the columns
  float phases[kIn][kOut][kPhase];  // every kOut-th element of `rows`

  const int64_t x0 = block.column * kOut - p.pad_w, length = block.columns * kOut + kOverlap;
  const int64_t begin = std::clamp<int64_t>(-x0, 0, length), end = std::clamp(p.width - x0, begin, length);
  for (auto& row : rows) std::fill(row, row + begin, 0.0f), std::fill(row + end, row + length, 0.0f);
  for (int64_t r = 0; r < block.rows; ++r) {
    const int64_t image = (block.row + r) / t.rows, y0 = (block.row + r) % t.rows * kOut - p.pad_h;
    const S* in[Rows];
    for (int i = 0; i < Rows; ++i) {
      const bool inside = y0 + i >= 0 && y0 + i < p.height;
      in[i] = inside ? from + image * p.image + (y0 + i) * p.width + x0 + begin : zeros;
      if (!inside || (i < kOverlap && r > 0)) continue;
      for (int64_t j = 0; j < end - begin; j += kLine) __builtin_prefetch(in[i] + p.height * p.width + j);
    }
    const auto down = [&]<int N>(int64_t at) AMP_INLINE {
      using T = typename cpu::VectorOf<N>::type;
      typename cpu::VectorOf<N>::local d[Rows], to[kIn];
      for (int i = 0; i < Rows; ++i) bf16_pairs::load<N>(in[i] + at, d[i]);
      along_axis<F, Rows>(d, to);
      for (int i = 0; i < kIn; ++i) *reinterpret_cast<T*>(rows[i] + begin + at) = to[i];
    };
    int64_t at = 0;
    for (; at + Lanes <= end - begin; at += Lanes) down.template operator()<Lanes>(at);
    for (; at < end - begin; ++at) down.template operator()<1>(at);

    for (int64_t j = 0; j < block.columns + (kOverlap > 0); j += Lanes) {
      for (int i = 0; i < kIn; ++i) {
        V parts[kOut];
        cpu::deinterleave<Lanes>(rows[i] + j * kOut, parts);
        for (int k = 0; k < kOut; ++k) *reinterpret_cast<V*>(phases[i][k] + j) = parts[k];
      }
    }
    for (int64_t j = 0; j < block.columns; j += Lanes) {
      float* to = v + r * block.columns + j;
      for (int i = 0; i < kIn; ++i) {
        Local d[Rows], places[kIn];
        for (int k = 0; k < Rows; ++k) d[k] = *reinterpret_cast<const V*>(phases[i][k % kOut] + j + k / kOut);
        along_axis<F, Rows>(d, places);
        for (int k = 0; k < kIn; ++k) *reinterpret_cast<V*>(to + (i * kIn + k) * place) = places[k];
      }
    }
  }
}

// Applies the inverse transform to the sums m[(i * kIn + k) * place + tile] of one channel, and writes the outputs plus
// bias. to: the channel's plane in the first image.
template <class F, int Lanes, class S>
AMP_INLINE inline void inverse(const Tiling& t, const Tiling::Block& block, const float* m, int64_t place, float bias,
                               S* to, int64_t image_size) {
  using V = typename cpu::VectorOf<Lanes>::type;
  using Local = typename cpu::VectorOf<Lanes>::local;
  constexpr int kOut = F::kOut, kIn = F::kIn;
  float rows[kOut][(kMostTiles + Lanes) * kOut];
  for (int64_t j = 0; j < block.tiles(); j += Lanes) {
    Local half[kOut][kIn];
    for (int k = 0; k < kIn; ++k) {
      Local sums[kIn], y[kOut];
      for (int i = 0; i < kIn; ++i) sums[i] = *reinterpret_cast<const V*>(m + (i * kIn + k) * place + j);
      F::output(sums, y);
      for (int i = 0; i < kOut; ++i) half[i][k] = y[i];
    }
    for (int i = 0; i < kOut; ++i) {
      Local y[kOut];
      F::output(half[i], y);
      for (Local& part : y) part += bias;
      cpu::interleave<Lanes>(y, rows[i] + j * kOut);
    }
  }
  const int64_t x = block.column * kOut, n = std::min(block.columns * kOut, t.out_w - x);
  for (int64_t r = 0; r < block.rows; ++r) {
    const int64_t image = (block.row + r) / t.rows, y = (block.row + r) % t.rows * kOut;
    S* at = to + image * image_size + y * t.out_w + x;
    for (int64_t i = 0; i < std::min<int64_t>(kOut, t.out_h - y); ++i)
      bf16_pairs::store<Lanes>(rows[i] + r * block.columns * kOut, n, at + i * t.out_w);
  }
}

}  // namespace amp::winograd
