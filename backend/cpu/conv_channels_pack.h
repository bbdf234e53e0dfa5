// What the kernels with lanes along channels share: packed images, widths of column blocks.
#pragma once

#include <algorithm>

#include "backend/cpu/block_transpose.h"
#include "backend/cpu/conv_channels.h"
#include "backend/cpu/conv_tiles.h"

namespace amp::conv_tiles {

using cpu::transpose_block;

constexpr int64_t kBlock = 64;  // output channels of a block: rows of packed weights, gradients and sums

// Rows of a register tile over `width` floats, a multiple of 16: 24 sums in vectors of 16.
constexpr int64_t tile_rows(int64_t width) { return width == 64 ? 6 : width == 48 ? 8 : 12; }

// Columns of block b of n output channels.
inline int64_t block_width(int64_t n, int64_t b) { return std::min(kBlock, round_up(n, kLane) - b * kBlock); }
inline int64_t block_count(int64_t n) { return (n + kBlock - 1) / kBlock; }

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
