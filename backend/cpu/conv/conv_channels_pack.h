// Shared code of kernels that are vectorized over channels: packed images, positions of pixels, column blocks,
// register tiles.
#pragma once

#include <algorithm>

#include "backend/cpu/conv/conv_channels.h"
#include "backend/cpu/conv/conv_tiles.h"
#include "backend/cpu/gemm/bf16_pairs.h"
#include "backend/cpu/gemm/block_transpose.h"

namespace amp::conv_tiles {

using cpu::transpose_block;

constexpr int64_t kBlock = 64;          // maximum output channels in a row of packed weights, gradients or sums
constexpr int64_t kImages = 160 << 10;  // maximum floats of images packed together; a single image may be larger

// Returns the number of rows of a register tile whose rows have `width` floats, a multiple of 16. A tile has at most 24
// vectors of 16 sums.
constexpr int64_t tile_rows(int64_t width) { return width == 64 ? 6 : width == 48 ? 8 : 12; }

// Divides tile_rows(width) rows of `width` floats into register tiles, and calls tile<Columns, Rows>(row, column) for
// each tile: Rows rows from `row` on, Columns vectors from `column` on.
template <int Lanes, class Tile>
AMP_INLINE inline void register_tiles(int64_t width, const Tile& tile) {
  if constexpr (Lanes == 16) {
    if (width == 64)
      tile.template operator()<4, 6>(0, 0);
    else if (width == 48)
      tile.template operator()<3, 8>(0, 0);
    else if (width == 32)
      tile.template operator()<2, 12>(0, 0);
    else
      tile.template operator()<1, 12>(0, 0);
  } else {
    const int64_t rows = tile_rows(width);
    for (int64_t j = 0; j < width; j += int64_t{2} * Lanes) {
      if (rows % 6 == 0) {
        for (int64_t r = 0; r < rows; r += 6) tile.template operator()<2, 6>(r, j);
      } else {
        for (int64_t r = 0; r < rows; r += 4) tile.template operator()<2, 4>(r, j);
      }
    }
  }
}

// Returns the number of columns (output channels) of block b of n output channels, rounded up to whole vectors.
inline int64_t block_width(int64_t n, int64_t b) { return std::min(kBlock, round_up(n, kLane) - b * kBlock); }
inline int64_t block_count(int64_t n) { return (n + kBlock - 1) / kBlock; }

// Writes sums to an output that has one plane of `size` elements per channel. sums is a matrix of pixels x channels
// with rows of `width` floats. Channel m of pixel p is written to out[m * size + to[p]]. `to` must be increasing.
template <int Lanes, class T>
AMP_INLINE inline void store_pixels(const float* sums, int64_t width, const int64_t* to, int64_t pixels,
                                    int64_t channels, T* out, int64_t size) {
  for (int64_t p = 0; p < pixels; p += 16) {
    const int64_t n = std::min<int64_t>(16, pixels - p);
    const bool neighbors = to[p + n - 1] - to[p] == n - 1;
    for (int64_t m = 0; m < channels; m += 16) {
      const int64_t rows = std::min<int64_t>(16, channels - m);
      T* first = out + m * size;
      if constexpr (std::is_same_v<T, float>) {
        if (neighbors && n == 16 && rows == 16) {
          transpose_block<Lanes>(sums + p * width + m, width, 16, 16,
                                 [&](int64_t i) AMP_INLINE { return first + i * size + to[p]; });
          continue;
        }
      }
      alignas(64) float block[16][16];
      transpose_block<Lanes>(sums + p * width + m, width, n, 16, [&](int64_t i) AMP_INLINE { return block[i]; });
      for (int64_t i = 0; i < rows; ++i) {
        if (neighbors) {
          bf16_pairs::store<Lanes>(block[i], n, first + i * size + to[p]);
          continue;
        }
        T row[16];
        bf16_pairs::store<Lanes>(block[i], 16, row);
        for (int64_t j = 0; j < n; ++j) first[i * size + to[p + j]] = row[j];
      }
    }
  }
}

// Returns the number of images packed at a time. The result is 1 if there are several groups, because the images of a
// group are not adjacent.
int64_t images_together(const ChannelPlan&, int64_t images, int64_t groups);

// Sets base[i] to the first element that pixel first + i of a part (ChannelPlan::Part) reads in the packed images.
// Pixels are counted over the packed images.
void place_pixels(const ChannelPlan&, const ChannelPlan::Part&, int64_t first, int64_t n, int64_t* base);
// Sets to[i] to the position of pixel first + i of a part in an output plane (one channel of an image) of extents
// `out`. image_size: floats between the outputs of consecutive images.
void place_outputs(const ChannelPlan::Part&, const std::array<int64_t, 3>& out, int64_t image_size, int64_t first,
                   int64_t n, int64_t* to);

// Packs rows [begin, end) of the padded box (depth, height, width) of one group of channels of an fp32 image. Rows are
// counted over depth and height.
void pack_image_rows(const ChannelPlan&, const float* source, float* to, int64_t begin, int64_t end);

// The content of the 4-byte elements of packed images.
enum class Elements {
  floats,         // fp32
  channel_pairs,  // an element is a pair of bf16 (channels 2 * i and 2 * i + 1), for sums over channels
  image_pairs,    // an element is a pair of bf16 (images 2 * i and 2 * i + 1), for sums over images
};
struct ImageSource {
  Stored data;
  Elements elements = Elements::floats;
  int64_t channels = 0;  // number of channels of an image in memory
};

// Packs items [first, first + count). An item is one group of channels of one image, or a pair of images for
// Elements::image_pairs. images: the number of single images.
void pack_images(const ChannelPlan&, const ImageSource&, int64_t images, int64_t first, int64_t count, float* to);

}  // namespace amp::conv_tiles
