// Gradient to the weight, vectorized over output channels. It is a matrix product over all pixels, whose result has a
// row for each (tap, input channel) and blocks of 64 output channels as columns. Shards divide taps, input channels and
// output channels. bf16 operands are packed as pairs of images; a tile unit (isa_kernels.h) computes the transposed
// product.
#include <memory>

#include "backend/cpu/conv/conv_channels.h"
#include "backend/cpu/conv/conv_channels_pack.h"
#include "backend/cpu/gemm/tile_scope.h"

namespace amp {

namespace {

using namespace conv_tiles;

constexpr int64_t kPixelChunk = 128;  // gradients of this many pixels stay in the first-level cache
constexpr int64_t kRange = 48;        // input channels per shard; multiple of 6, 8 and 12, the rows of a tile
constexpr int64_t kTaps = 9;          // maximal taps per shard

// sums[row][column] += sum over pixels of x[base[pixel] + row] * dy[pixel][column], for Rows rows by Columns vectors.
// Products are summed in registers first.
template <int Lanes, int Columns, int Rows>
AMP_INLINE inline void add_products(const float* x, const int64_t* base, int64_t pixels, const float* dy, int64_t width,
                                    float* sums) {
  using V = typename VectorOf<Lanes>::type;
  V acc[Rows][Columns];
  for (int64_t r = 0; r < Rows; ++r) {
    for (int64_t j = 0; j < Columns; ++j) acc[r][j] = V{};
  }
  for (int64_t p = 0; p < pixels; ++p, dy += width) {
    const float* at = x + base[p];
    V v[Columns];
    for (int64_t j = 0; j < Columns; ++j) v[j] = *reinterpret_cast<const V*>(dy + j * Lanes);
    for (int64_t r = 0; r < Rows; ++r) {
      for (int64_t j = 0; j < Columns; ++j) acc[r][j] += at[r] * v[j];
    }
  }
  for (int64_t r = 0; r < Rows; ++r) {
    for (int64_t j = 0; j < Columns; ++j) *reinterpret_cast<V*>(sums + r * width + j * Lanes) += acc[r][j];
  }
}

struct ChannelWeightGradient {
  ChannelPlan plan;
  ConvShape s;
  int64_t images;    // number of images, or of pairs of images (bf16)
  int64_t together;  // images (or pairs) packed at a time
  // Number of shards into which the taps are divided, for each block of output channels and range of input channels.
  int64_t pieces;
  ImageSource x;
  Stored dy;
  float *dw, *packed, *grads;

  bool pairs() const { return dy.dtype == DType::bf16; }
  const cpu::TileUnit* tiles() const { return pairs() ? cpu::isa_kernels().tiles : nullptr; }
  int64_t blocks() const { return block_count(s.m); }
  // Returns the number of ranges of input channels. The last range has up to 64 channels, so that 64 channels are one
  // range.
  int64_t ranges() const { return s.c <= kBlock ? 1 : (s.c - (kBlock - kRange) + kRange - 1) / kRange; }

  void pack_grads(int64_t image, int64_t n_images, int64_t item, int64_t block) const;
  void pack_grad_rows(int64_t image, int64_t n_images, int64_t item, int64_t block) const;
  struct Shard {
    int64_t block, width;  // index of a block of output channels, and its size
    int64_t c, n;          // first input channel, and number of input channels
    int64_t first_tap, end_tap, g;
    bool add;
  };
  void run_shard(const Shard& of, int64_t n_images) const;
  void run_shard_tiles(const Shard& of, int64_t n_images) const;
  template <int Lanes>
  AMP_INLINE inline void store(const float* sums, int64_t width, int64_t tap_rows, int64_t rows, int64_t c, int64_t n,
                               int64_t first_tap, int64_t end_tap, float* to, bool add) const;
  void run_all() const;
};

// Packs a block's channels of one image's dy as [pixel][channel], zeros after the last channel.
void ChannelWeightGradient::pack_grads(int64_t image, int64_t n_images, int64_t item, int64_t block) const {
  const int64_t size = s.out_size(), width = block_width(s.m, block);
  float* to = grads + (block * kBlock * n_images + item * width) * size;
  const int64_t stored = (pairs() ? 2 : 1) * (image + item), rows = std::min(width, s.m - block * kBlock);
  const void* const from = dy.at((stored * s.m + block * kBlock) * size);
  const int64_t other = stored + 1 < s.n ? s.m * size : 0;  // distance to the pair's second image
  at_level([&]<int Lanes>() AMP_INLINE {
    for (int64_t p = 0; p < size; p += 16) {
      const int64_t n = std::min<int64_t>(16, size - p);
      for (int64_t m = 0; m < width; m += 16) {
        const int64_t here = std::clamp<int64_t>(rows - m, 0, 16);
        const auto row = [&](int64_t i) AMP_INLINE { return to + (p + i) * width + m; };
        if (!pairs()) {
          transpose_block<Lanes>(static_cast<const float*>(from) + m * size + p, size, here, n, row);
          continue;
        }
        alignas(64) float both[16][16];
        for (int64_t i = 0; i < here; ++i) {
          const BFloat16* low = static_cast<const BFloat16*>(from) + (m + i) * size + p;
          bf16_pairs::zip<Lanes>(low, other ? low + other : nullptr, n, both[i]);
        }
        transpose_block<Lanes>(both[0], 16, here, n, row);
      }
    }
  });
}

// Like pack_grads(), but for a tile unit: packs groups of 16 pixels, counted over the images, each as [channel][16].
void ChannelWeightGradient::pack_grad_rows(int64_t image, int64_t n_images, int64_t item, int64_t block) const {
  const int64_t size = s.out_size(), width = block_width(s.m, block), all = round_up(n_images * size, kLane);
  float* const to = grads + block * kBlock * all;
  const int64_t stored = 2 * (image + item), rows = std::min(width, s.m - block * kBlock);
  const auto* const from = static_cast<const BFloat16*>(dy.at((stored * s.m + block * kBlock) * size));
  const int64_t other = stored + 1 < s.n ? s.m * size : 0, end = (item + 1) * size;
  at_level([&]<int Lanes>() AMP_INLINE {
    for (int64_t p = item * size; p < end;) {
      const int64_t n = std::min(kLane - p % kLane, end - p);
      float* const at = to + p / kLane * kLane * width + p % kLane;
      for (int64_t m = 0; m < width; ++m) {
        const BFloat16* low = from + m * size + p - item * size;
        if (m < rows)
          bf16_pairs::zip<Lanes>(low, other ? low + other : nullptr, n, at + m * kLane);
        else
          std::fill_n(at + m * kLane, n, 0.0f);
      }
      p += n;
    }
  });
  if (item + 1 < n_images || end == all) return;
  for (int64_t m = 0; m < width; ++m)
    std::fill_n(to + end / kLane * kLane * width + m * kLane + end % kLane, all - end, 0.0f);
}

// Writes or adds `sums` to dw, transposed to dw's layout. `sums` has n input channels from c on, taps [first_tap,
// end_tap), and `rows` output channels from `to` on. Each tap starts tap_rows rows after the previous tap.
template <int Lanes>
AMP_INLINE inline void ChannelWeightGradient::store(const float* sums, int64_t width, int64_t tap_rows, int64_t rows,
                                                    int64_t c, int64_t n, int64_t first_tap, int64_t end_tap, float* to,
                                                    bool add) const {
  const int64_t taps = s.taps(), k = s.c * taps;
  for (int64_t m = 0; m < rows; m += 16) {
    const int64_t n_rows = std::min<int64_t>(16, rows - m);
    for (int64_t j = 0; j < n; j += 16) {
      const int64_t channels = std::min<int64_t>(16, n - j);
      for (int64_t t = first_tap; t < end_tap; ++t) {
        alignas(64) float square[16][16];
        transpose_block<Lanes>(sums + ((t - first_tap) * tap_rows + j) * width + m, width, channels, 16,
                               [&](int64_t i) AMP_INLINE { return square[i]; });
        for (int64_t i = 0; i < n_rows; ++i) {
          float* at = to + (m + i) * k + (c + j) * taps + t;
          for (int64_t l = 0; l < channels; ++l) at[l * taps] = square[i][l] + (add ? at[l * taps] : 0.0f);
        }
      }
    }
  }
}

// Computes a range of taps, a range of input channels and a block of output channels, over all pixels of the packed
// images.
void ChannelWeightGradient::run_shard(const Shard& of, int64_t n_images) const {
  const int64_t block = of.block, width = of.width, c = of.c, n = of.n, first_tap = of.first_tap, end_tap = of.end_tap,
                g = of.g;
  const bool add = of.add;
  const int64_t tile = tile_rows(width), pixels = n_images * s.out_size(), tap_rows = round_up(n, tile);
  // 64 input channels are at most 72 rows after rounding up to whole tiles; a row has at most 64 floats (width).
  alignas(64) float sums[kTaps * 4608];
  std::fill_n(sums, (end_tap - first_tap) * tap_rows * width, 0.0f);
  const float* from = grads + block * kBlock * pixels;
  const ChannelPlan::Part& part = plan.parts[0];
  int64_t base[kPixelChunk];
  for (int64_t p = 0; p < pixels; p += kPixelChunk) {
    const int64_t count = std::min(kPixelChunk, pixels - p);
    place_pixels(plan, part, p, count, base);
    if (pairs()) {
      for (int64_t t = first_tap; t < end_tap; ++t) {
        for (int64_t i = 0; i < n; i += tile) {
          bf16_pairs::add_products(width, packed + part.offset[static_cast<size_t>(t)] + c + i, base, count,
                                   from + p * width, sums + ((t - first_tap) * tap_rows + i) * width);
        }
      }
      continue;
    }
    at_level([&]<int Lanes>() AMP_INLINE {
      for (int64_t t = first_tap; t < end_tap; ++t) {
        const float* image = packed + part.offset[static_cast<size_t>(t)] + c;
        float* to = sums + (t - first_tap) * tap_rows * width;
        for (int64_t i = 0; i < n; i += tile) {
          register_tiles<Lanes>(width, [&]<int Columns, int Rows>(int64_t r, int64_t j) AMP_INLINE {
            add_products<Lanes, Columns, Rows>(image + i + r, base, count, from + p * width + j, width,
                                               to + (i + r) * width + j);
          });
        }
      }
    });
  }
  at_level([&]<int Lanes>() AMP_INLINE {
    store<Lanes>(sums, width, tap_rows, std::min(width, s.m - block * kBlock), c, n, first_tap, end_tap,
                 dw + (g * s.m + block * kBlock) * s.c * s.taps(), add);
  });
}

// Like run_shard(), but with a tile unit. It computes the transposed result, whose rows are output channels and whose
// columns are input channels, so that no operand must be transposed.
void ChannelWeightGradient::run_shard_tiles(const Shard& of, int64_t n_images) const {
  const int64_t block = of.block, width = of.width, c = of.c, n = of.n, first_tap = of.first_tap, end_tap = of.end_tap,
                g = of.g;
  const bool add = of.add;
  const int64_t pixels = n_images * s.out_size(), columns = round_up(n, kLane);
  const int64_t taps = s.taps(), tap_size = width * columns;
  alignas(64) float sums[kTaps * kBlock * kBlock];
  std::fill_n(sums, (end_tap - first_tap) * tap_size, 0.0f);
  const float* from = grads + block * kBlock * round_up(pixels, kLane);
  int64_t base[cpu::TileUnit::kMostPixels];
  const cpu::TileScope scope(true);
  for (int64_t p = 0; p < pixels; p += cpu::TileUnit::kMostPixels) {
    const int64_t count = std::min(cpu::TileUnit::kMostPixels, pixels - p);
    place_pixels(plan, plan.parts[0], p, count, base);
    for (int64_t t = first_tap; t < end_tap; ++t) {
      tiles()->add_products(width, columns, from + p * width, packed + plan.parts[0].offset[static_cast<size_t>(t)] + c,
                            base, count, sums + (t - first_tap) * tap_size);
    }
  }
  at_level([&]<int Lanes>() AMP_INLINE {
    alignas(64) float square[16][16];  // [input channel][tap]
    for (int64_t m = 0; m < std::min(width, s.m - block * kBlock); ++m) {
      for (int64_t j = 0; j < n; j += 16) {
        transpose_block<Lanes>(sums + m * columns + j, tap_size, end_tap - first_tap, 16,
                               [&](int64_t i) AMP_INLINE { return square[i]; });
        float* to = dw + ((g * s.m + block * kBlock + m) * s.c + c + j) * taps + first_tap;
        for (int64_t i = 0; i < std::min<int64_t>(16, n - j); ++i, to += taps) {
          for (int64_t t = 0; t < end_tap - first_tap; ++t) to[t] = square[i][t] + (add ? to[t] : 0.0f);
        }
      }
    }
  });
}

void ChannelWeightGradient::run_all() const {
  for (int64_t at = 0; at < images; at += together) {
    const int64_t n = std::min(together, images - at), g = at % s.groups;
    pack_images(plan, x, s.n, at, n, packed);
    parallel_for(n * blocks(), [&](int64_t i) {
      const auto pack = tiles() ? &ChannelWeightGradient::pack_grad_rows : &ChannelWeightGradient::pack_grads;
      (this->*pack)(at, n, i / blocks(), i % blocks());
    });
    parallel_for(blocks() * ranges() * pieces, [&](int64_t i) {
      const int64_t block = i / (ranges() * pieces), range = i / pieces % ranges(), piece = i % pieces,
                    c = range * kRange;
      const Shard shard{block,
                        block_width(s.m, block),
                        c,
                        range + 1 == ranges() ? s.c - c : kRange,
                        s.taps() * piece / pieces,
                        s.taps() * (piece + 1) / pieces,
                        g,
                        at >= s.groups};
      if (tiles())
        run_shard_tiles(shard, n);
      else
        run_shard(shard, n);
    });
  }
}

}  // namespace

Kernel conv_channels_grad_w(const ConvShape& s, Carver& carve, const Stored& x, const Stored& dy, float* dw) {
  // Sums run over pairs of images (bf16), which requires one group.
  const bool pairs = dy.dtype == DType::bf16;
  ChannelWeightGradient g{};
  g.plan = forward_channels(s);
  g.s = s;
  g.x = {x, pairs ? Elements::image_pairs : Elements::floats, s.c}, g.dy = dy, g.dw = dw;
  g.images = pairs ? (s.n + 1) / 2 : s.n * s.groups;
  g.together = images_together(g.plan, g.images, s.groups);
  // A shard has at least about twenty tiles, because otherwise reading dy dominates, and at most kTaps taps.
  const int64_t shards = g.blocks() * g.ranges(), most = std::max<int64_t>(1, s.taps() * std::min(s.c, kRange) / 108);
  g.pieces = std::clamp<int64_t>((8 + shards - 1) / shards, (s.taps() + kTaps - 1) / kTaps,
                                 std::max(most, (s.taps() + kTaps - 1) / kTaps));
  g.packed = carve.take<float>(g.together * g.plan.image_size() + kSlack);
  g.grads = carve.take<float>(round_up(g.together * s.out_size(), kLane) * round_up(s.m, kLane));
  return [p = std::make_shared<const ChannelWeightGradient>(std::move(g))] { p->run_all(); };
}

}  // namespace amp
