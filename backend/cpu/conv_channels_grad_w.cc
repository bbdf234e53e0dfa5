// The gradient to the weight with lanes along output channels: rows of (tap, input channel) by blocks of 64 output
// channels, summed over all pixels.
#include <memory>

#include "backend/cpu/conv_channels.h"
#include "backend/cpu/conv_channels_pack.h"

namespace amp {

namespace {

using namespace conv_tiles;

constexpr int64_t kPixelChunk = 128;               // gradients of so many pixels stay in the nearest cache
constexpr int64_t kGradImages = int64_t{4} << 20;  // floats of packed images at a time, where more than one is there

// sums[row][column] += x[base[pixel] + row] * dy[pixel][column], Rows by Columns vectors, summed by themselves first.
template <int Lanes, int Columns, int Rows>
AMP_INLINE inline void add_products(const float* x, const int64_t* base, int64_t pixels, const float* dy, int64_t width,
                                    float* sums) {
  using V = typename VectorOf<Lanes>::type;
  V acc[Rows][Columns];
  for (int r = 0; r < Rows; ++r) {
    for (int j = 0; j < Columns; ++j) acc[r][j] = V{};
  }
  for (int64_t p = 0; p < pixels; ++p, dy += width) {
    const float* at = x + base[p];
    V v[Columns];
    for (int j = 0; j < Columns; ++j) v[j] = *reinterpret_cast<const V*>(dy + j * Lanes);
    for (int r = 0; r < Rows; ++r) {
      for (int j = 0; j < Columns; ++j) acc[r][j] += at[r] * v[j];
    }
  }
  for (int r = 0; r < Rows; ++r) {
    for (int j = 0; j < Columns; ++j) *reinterpret_cast<V*>(sums + r * width + j * Lanes) += acc[r][j];
  }
}

template <int Lanes>
AMP_INLINE inline void add_tile(const float* x, const int64_t* base, int64_t pixels, const float* dy, int64_t width,
                                float* sums) {
  if constexpr (Lanes == 16) {
    if (width == 64)
      add_products<16, 4, 6>(x, base, pixels, dy, width, sums);
    else if (width == 48)
      add_products<16, 3, 8>(x, base, pixels, dy, width, sums);
    else if (width == 32)
      add_products<16, 2, 12>(x, base, pixels, dy, width, sums);
    else
      add_products<16, 1, 12>(x, base, pixels, dy, width, sums);
  } else {
    const int64_t rows = tile_rows(width);
    for (int64_t j = 0; j < width; j += 2 * Lanes) {
      if (rows % 6 == 0) {
        for (int64_t r = 0; r < rows; r += 6)
          add_products<Lanes, 2, 6>(x + r, base, pixels, dy + j, width, sums + r * width + j);
      } else {
        for (int64_t r = 0; r < rows; r += 4)
          add_products<Lanes, 2, 4>(x + r, base, pixels, dy + j, width, sums + r * width + j);
      }
    }
  }
}

struct ChannelWeightGradient {
  ChannelPlan plan;
  ConvShape s;
  // Of a block: the tiles' places in an image, and the row of sums where each tap's channels begin.
  struct Rows {
    std::vector<int64_t> tile, tap;
    int64_t count = 0;
  };
  Rows wide, last;   // of blocks of 64 columns, and of the last one
  int64_t together;  // images packed at a time
  int64_t pieces;    // shards of a block's tiles
  const float *x, *dy;
  float *dw, *packed, *grads, *sums;

  int64_t blocks() const { return block_count(s.m); }
  const Rows& rows_of(int64_t block) const { return block_width(s.m, block) == kBlock ? wide : last; }
  int64_t group_sums() const {
    return (blocks() - 1) * wide.count * kBlock + rows_of(blocks() - 1).count * block_width(s.m, blocks() - 1);
  }

  Rows make_rows(int64_t width) const;
  void pack_grads(int64_t image, int64_t n_images, int64_t item, int64_t block) const;
  void run_shard(int64_t g, int64_t block, int64_t begin, int64_t end, int64_t n_images, bool first) const;
  void store(int64_t g, int64_t block, int64_t begin, int64_t end) const;
  void run_all() const;
};

ChannelWeightGradient::Rows ChannelWeightGradient::make_rows(int64_t width) const {
  Rows rows;
  const int64_t tile = tile_rows(width);
  for (const ChannelPlan::Run& r : plan.parts[0].runs) {
    for (int64_t c = 0; c < r.length; c += plan.channels) rows.tap.push_back(rows.count + c);
    for (int64_t i = 0; i < r.length; i += tile, rows.count += tile) rows.tile.push_back(r.offset + i);
  }
  return rows;
}

// A block's channels of one image's dy -> [pixel][channel], zeros behind the last channel.
void ChannelWeightGradient::pack_grads(int64_t image, int64_t n_images, int64_t item, int64_t block) const {
  const int64_t size = s.out_size(), width = block_width(s.m, block);
  const float* from = dy + ((image + item) * s.m + block * kBlock) * size;
  float* to = grads + (block * kBlock * n_images + item * width) * size;
  at_level([&]<int Lanes>() AMP_INLINE {
    for (int64_t p = 0; p < size; p += 16) {
      for (int64_t m = 0; m < width; m += 16) {
        transpose_block<Lanes>(from + m * size + p, size, std::min<int64_t>(16, s.m - block * kBlock - m),
                               std::min<int64_t>(16, size - p),
                               [&](int64_t i) AMP_INLINE { return to + (p + i) * width + m; });
      }
    }
  });
}

// Tiles [begin, end) of a block, over all pixels of the packed images.
void ChannelWeightGradient::run_shard(int64_t g, int64_t block, int64_t begin, int64_t end, int64_t n_images,
                                      bool first) const {
  const int64_t width = block_width(s.m, block), tile = tile_rows(width), size = s.out_size(), pixels = n_images * size;
  const Rows& rows = rows_of(block);
  float* to = sums + g * group_sums() + block * kBlock * wide.count;
  if (first) std::fill(to + begin * tile * width, to + end * tile * width, 0.0f);
  const float* from = grads + block * kBlock * pixels;
  BoxWalk walk({s.window[0].out, s.window[1].out, s.window[2].out}, 0);
  int64_t item = 0, base[kPixelChunk];
  const auto& [d, h, w] = plan.axis;
  for (int64_t p = 0; p < pixels; p += kPixelChunk) {
    const int64_t n = std::min(kPixelChunk, pixels - p);
    for (int64_t i = 0; i < n; ++i) {
      const auto [z, y, xx] = walk.at;
      base[i] =
          item * plan.image_size() + ((z * d.stride * h.length + y * h.stride) * w.length + xx * w.stride) * plan.pitch;
      walk.next();
      if (walk.at == std::array<int64_t, 3>{}) ++item;
    }
    at_level([&]<int Lanes>() AMP_INLINE {
      for (int64_t t = begin; t < end; ++t)
        add_tile<Lanes>(packed + rows.tile[static_cast<size_t>(t)], base, n, from + p * width, width,
                        to + t * tile * width);
    });
  }
}

// Channels [begin, end), multiples of 16 but for the last, of a block's sums -> the weight's layout.
void ChannelWeightGradient::store(int64_t g, int64_t block, int64_t begin, int64_t end) const {
  const int64_t width = block_width(s.m, block), taps = s.taps(), k = s.c * taps;
  const Rows& rows = rows_of(block);
  const float* from = sums + g * group_sums() + block * kBlock * wide.count;
  at_level([&]<int Lanes>() AMP_INLINE {
    for (int64_t m = 0; m < width; m += 16) {
      float* to = dw + (g * s.m + block * kBlock + m) * k;
      const int64_t n_rows = std::min<int64_t>(16, s.m - block * kBlock - m);
      for (int64_t c = begin; c < end; c += 16) {
        const int64_t n = std::min<int64_t>(16, end - c);
        for (int64_t t = 0; t < taps; ++t) {
          alignas(64) float square[16][16];
          transpose_block<Lanes>(from + (rows.tap[static_cast<size_t>(t)] + c) * width + m, width, n, 16,
                                 [&](int64_t i) AMP_INLINE { return square[i]; });
          for (int64_t i = 0; i < n_rows; ++i) {
            for (int64_t j = 0; j < n; ++j) to[i * k + (c + j) * taps + t] = square[i][j];
          }
        }
      }
    }
  });
}

void ChannelWeightGradient::run_all() const {
  for (int64_t at = 0; at < s.n * s.groups; at += together) {
    const int64_t n = std::min(together, s.n * s.groups - at), g = at % s.groups;
    pack_images(plan, x + at * s.c * s.in_size(), n, packed);
    parallel_for(n * blocks(), [&](int64_t i) { pack_grads(at, n, i / blocks(), i % blocks()); });
    parallel_for(blocks() * pieces, [&](int64_t i) {
      const int64_t block = i / pieces, piece = i % pieces;
      const auto tiles = static_cast<int64_t>(rows_of(block).tile.size());
      run_shard(g, block, tiles * piece / pieces, tiles * (piece + 1) / pieces, n, at < s.groups);
    });
  }
  const int64_t ranges = (s.c + 63) / 64;
  parallel_for(s.groups * blocks() * ranges, [&](int64_t i) {
    const int64_t c = i % ranges * 64;
    store(i / (blocks() * ranges), i / ranges % blocks(), c, std::min(s.c, c + 64));
  });
}

}  // namespace

Kernel conv_channels_grad_w(const ConvShape& s, Carver& carve, const float* x, const float* dy, float* dw) {
  ChannelWeightGradient g{};
  g.plan = forward_channels(s);
  g.s = s;
  g.x = x, g.dy = dy, g.dw = dw;
  g.wide = g.make_rows(kBlock);
  g.last = g.make_rows(block_width(s.m, g.blocks() - 1));
  g.together = s.groups > 1 ? 1 : std::clamp<int64_t>(kGradImages / g.plan.image_size(), 1, s.n);
  const auto tiles = static_cast<int64_t>(g.rows_of(g.blocks() - 1).tile.size());
  g.pieces = std::clamp<int64_t>(16 / g.blocks(), 1, std::max<int64_t>(1, tiles / 24));
  g.packed = carve.take<float>(g.together * g.plan.image_size() + kSlack);
  g.grads = carve.take<float>(g.together * s.out_size() * round_up(s.m, kLane));
  g.sums = carve.take<float>(s.groups * g.group_sums());
  return [p = std::make_shared<const ChannelWeightGradient>(std::move(g))] { p->run_all(); };
}

}  // namespace amp
