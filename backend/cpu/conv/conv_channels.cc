// Convolution vectorized over output channels (conv_channels.h): forward and the gradient to x.
// run_all() packs images channels last, a few at a time, then runs tasks of (pixels, block of 64 channels). A task
// multiplies one chunk of weights after the other, by register tiles of fp32 or of bf16 pairs, or by a tile unit (AMX).

#include "backend/cpu/conv/conv_channels.h"

#include <memory>

#include "backend/cpu/conv/conv_channels_pack.h"
#include "backend/cpu/conv/conv_channels_weights.h"
#include "backend/cpu/gemm/bf16_pairs.h"
#include "backend/cpu/gemm/tile_scope.h"
#include "backend/cpu/isa_kernels.h"
#include "base/simd.h"

namespace amp {

namespace {

using namespace conv_tiles;

constexpr int64_t kPixels = 192;      // pixels per task; a multiple of 6, 8, 12 and 32 (possible pixels per tile)
constexpr int64_t kMostPixels = 768;  // maximum pixels of a task that packs its own weights
// Maximum rows of a chunk; 64 columns of these rows stay in the first-level cache.
constexpr int64_t kChunk = 144;
constexpr int64_t kMostRows = 160;  // maximum rows of a chunk that a task packs itself

// Multiplies Rows pixels by Columns vectors of weights: sums += image * weights, summed over taps and `channels`.
// base[r] is where pixel r starts in the image. The products of a chunk are summed before they are added to `sums`,
// so rounding errors grow only with the number of rows of a chunk.
template <int Lanes, int Columns, int Rows>
AMP_INLINE inline void multiply(const float* image, const int64_t* base, const std::vector<int64_t>& offset,
                                int64_t channels, const float* w, int64_t width, float* sums) {
  using V = typename VectorOf<Lanes>::type;
  V acc[Rows][Columns];
  for (int64_t r = 0; r < Rows; ++r) {
    for (int64_t j = 0; j < Columns; ++j) acc[r][j] = V{};
  }
  for (const int64_t tap : offset) {
    const float* at[Rows];
    for (int64_t r = 0; r < Rows; ++r) at[r] = image + base[r] + tap;
    for (int64_t i = 0; i < channels; ++i, w += width) {
      V v[Columns];
      for (int64_t j = 0; j < Columns; ++j) v[j] = *reinterpret_cast<const V*>(w + j * Lanes);
      for (int64_t r = 0; r < Rows; ++r) {
        const float x = at[r][i];
        for (int64_t j = 0; j < Columns; ++j) acc[r][j] += x * v[j];
      }
    }
  }
  for (int64_t r = 0; r < Rows; ++r) {
    for (int64_t j = 0; j < Columns; ++j) *reinterpret_cast<V*>(sums + r * width + j * Lanes) += acc[r][j];
  }
}

// A correlation of packed images with packed weights, used by forward and by the gradient to x.
//
// Weights are packed in chunks: a range of channels times all taps of a part, for a block of up to 64 columns. If there
// are few pixels, a task processes all pixels and packs each chunk just before its use. Otherwise all chunks are packed
// up front.
struct ChannelCorrelation {
  ChannelPlan plan;
  int64_t images, groups, rows;  // rows: channels per group that the correlation writes
  ChannelWeights w;
  std::array<int64_t, 3> out;  // spatial extents that the correlation writes
  struct Part {
    int64_t channels = 0;  // number of channels in a chunk; the last chunk may have fewer
    int64_t at = 0;        // start of the part's packed weights in packed_w
  };
  std::vector<Part> parts = {};
  int64_t together = 1;  // images packed at a time
  bool at_once = false;  // true if each task packs its weights

  ImageSource source;
  const float* bias;
  StoredOut target;
  float *packed_w = nullptr, *packed = nullptr;

  int64_t out_size() const { return out[0] * out[1] * out[2]; }
  int64_t lanes() const { return round_up(rows, kLane); }
  const cpu::TileUnit* tiles() const { return w.pairs() ? cpu::isa_kernels().tiles : nullptr; }
  int64_t tile_pixels(int64_t width) const { return tiles() ? cpu::TileUnit::kPixels : tile_rows(width); }
  int64_t part_rows(size_t part) const { return static_cast<int64_t>(plan.parts[part].tap.size()) * plan.channels; }

  void make_parts();
  void run_all() const;
  void pack_chunk(size_t part, int64_t g, int64_t block, int64_t channel, float* to) const;
  void add_chunk(const ChannelPlan::Part& part, int64_t channel, int64_t channels, const int64_t* base, int64_t pixels,
                 const float* weights, int64_t width, float* sums) const;
  void store(const float* sums, int64_t width, const int64_t* to, int64_t pixels, int64_t image, int64_t block) const;
  template <int Most>
  void run_task(size_t part, int64_t image, int64_t n_images, int64_t pixel, int64_t block) const;
};

void ChannelCorrelation::make_parts() {
  int64_t at = 0;
  for (size_t p = 0; p < plan.parts.size(); ++p) {
    const auto n_taps = std::max<int64_t>(1, static_cast<int64_t>(plan.parts[p].tap.size()));
    parts.push_back({std::min(plan.channels, std::max(kLane, kChunk / n_taps / kLane * kLane)), at});
    at += groups * part_rows(p) * lanes();
  }
}

void ChannelCorrelation::pack_chunk(size_t p, int64_t g, int64_t block, int64_t channel, float* to) const {
  const int64_t from =
      g * std::max(rows * w.column_stride, w.channels * w.channel_stride) + block * kBlock * w.column_stride;
  const int64_t width = block_width(rows, block);
  w.pack(plan.parts[p].tap, from, std::min(width, rows - block * kBlock), width, channel,
         std::min(parts[p].channels, plan.channels - channel), to);
}

// Adds the products of one chunk of weights with `pixels` pixels. Processes whole register tiles.
void ChannelCorrelation::add_chunk(const ChannelPlan::Part& part, int64_t channel, int64_t channels,
                                   const int64_t* base, int64_t pixels, const float* weights, int64_t width,
                                   float* sums) const {
  const int64_t tile = tile_pixels(width);
  if (w.pairs()) {
    const auto correlate = tiles() ? tiles()->correlate : bf16_pairs::correlate;
    for (int64_t i = 0; i < pixels; i += tile) {
      correlate(width, packed + channel, base + i, part.offset.data(), static_cast<int64_t>(part.offset.size()),
                channels, weights, sums + i * width);
    }
    return;
  }
  at_level([&]<int Lanes>() AMP_INLINE {
    for (int64_t i = 0; i < pixels; i += tile) {
      register_tiles<Lanes>(width, [&]<int Columns, int Rows>(int64_t r, int64_t j) AMP_INLINE {
        multiply<Lanes, Columns, Rows>(packed + channel, base + i + r, part.offset, channels, weights + j, width,
                                       sums + (i + r) * width + j);
      });
    }
  });
}

void ChannelCorrelation::store(const float* sums, int64_t width, const int64_t* to, int64_t pixels, int64_t image,
                               int64_t block) const {
  const int64_t channels = std::min(width, rows - block * kBlock);
  void* const first = target.at((image * rows + block * kBlock) * out_size());
  at_level([&]<int Lanes>() AMP_INLINE {
    if (target.dtype == DType::bf16)
      store_pixels<Lanes>(sums, width, to, pixels, channels, static_cast<BFloat16*>(first), out_size());
    else
      store_pixels<Lanes>(sums, width, to, pixels, channels, static_cast<float*>(first), out_size());
  });
}

// Computes one block of output channels for up to Most pixels from `pixel` on, counted over the packed images. image:
// the first packed image.
template <int Most>
void ChannelCorrelation::run_task(size_t p, int64_t image, int64_t n_images, int64_t pixel, int64_t block) const {
  const ChannelPlan::Part& part = plan.parts[p];
  const int64_t pixels = std::min<int64_t>(Most, n_images * part.pixels() - pixel);
  const int64_t width = block_width(rows, block), padded = round_up(pixels, tile_pixels(width));
  int64_t base[Most], to[Most];
  alignas(64) float sums[Most * kBlock];
  place_pixels(plan, part, pixel, pixels, base);
  place_outputs(part, out, rows * out_size(), pixel, pixels, to);
  std::fill(base + pixels, base + padded, base[0]);
  const int64_t g = image % groups;
  const int64_t n_bias = std::min(width, rows - block * kBlock);
  for (int64_t i = 0; i < padded; ++i) {
    float* at = sums + i * width;
    if (bias)
      std::copy_n(bias + g * rows + block * kBlock, n_bias, at), std::fill(at + n_bias, at + width, 0.0f);
    else
      std::fill_n(at, width, 0.0f);
  }
  const Part& of = parts[p];
  const auto n_taps = static_cast<int64_t>(part.tap.size());
  // Null if the weights are packed chunk by chunk here (at_once).
  const float* weights = at_once ? nullptr : packed_w + of.at + (g * lanes() + block * kBlock) * part_rows(p);
  alignas(64) float chunk[kMostRows * kBlock];
  const cpu::TileScope scope(tiles() != nullptr);
  for (int64_t c = 0; c < plan.channels && n_taps > 0; c += of.channels) {
    if (at_once) pack_chunk(p, g, block, c, chunk);
    const float* here = at_once ? chunk : weights + c * n_taps * width;
    add_chunk(part, c, std::min(of.channels, plan.channels - c), base, padded, here, width, sums);
  }
  store(sums, width, to, pixels, image, block);
}

void ChannelCorrelation::run_all() const {
  const int64_t blocks = block_count(rows);
  for (size_t p = 0; p < parts.size() && !at_once; ++p) {
    const int64_t step = parts[p].channels, chunks = (plan.channels + step - 1) / step;
    const auto n_taps = static_cast<int64_t>(plan.parts[p].tap.size());
    parallel_for(groups * blocks * chunks, [&](int64_t i) {
      const int64_t g = i / (blocks * chunks), block = i / chunks % blocks, c = i % chunks * step;
      pack_chunk(p, g, block, c,
                 packed_w + parts[p].at + (g * lanes() + block * kBlock) * part_rows(p) +
                     c * n_taps * block_width(rows, block));
    });
  }
  for (int64_t at = 0; at < images * groups; at += together) {
    const int64_t n = std::min(together, images * groups - at);
    pack_images(plan, source, images * groups, at, n, packed);
    for (size_t p = 0; p < parts.size(); ++p) {
      const int64_t pixels = at_once ? kMostPixels : kPixels;
      const int64_t tasks = (n * plan.parts[p].pixels() + pixels - 1) / pixels;
      parallel_for(tasks * blocks, [&](int64_t i) {
        if (at_once)
          run_task<kMostPixels>(p, at, n, i / blocks * pixels, i % blocks);
        else
          run_task<kPixels>(p, at, n, i / blocks * pixels, i % blocks);
      });
    }
  }
}

Kernel correlate(ChannelCorrelation c, Carver& carve) {
  c.make_parts();
  c.together = images_together(c.plan, c.images, c.groups);
  int64_t most = 0, rows = 0, weights = 0;
  for (size_t p = 0; p < c.parts.size(); ++p) {
    most = std::max(most, c.plan.parts[p].pixels());
    rows = std::max(rows, c.parts[p].channels * static_cast<int64_t>(c.plan.parts[p].tap.size()));
    weights += c.groups * c.part_rows(p) * c.lanes();
  }
  c.at_once = c.groups == 1 && block_count(c.rows) >= 4 && c.together == c.images && most * c.images <= kMostPixels &&
              rows <= kMostRows;
  c.packed_w = c.at_once ? nullptr : carve.take<float>(weights);
  c.packed = carve.take<float>(c.together * c.plan.image_size() + kSlack);
  return [s = std::make_shared<const ChannelCorrelation>(std::move(c))] { s->run_all(); };
}

// Returns s. If w is bf16, the result's member `channels` (the number of channels that are summed over) counts pairs
// of channels.
ConvShape summed_over(ConvShape s, int64_t ConvShape::*channels, const Stored& w) {
  if (w.dtype == DType::bf16) s.*channels = (s.*channels + 1) / 2;
  return s;
}
ImageSource channels_of(const Stored& x, int64_t channels) {
  return {x, x.dtype == DType::bf16 ? Elements::channel_pairs : Elements::floats, channels};
}

}  // namespace

bool conv_channels_takes(DType a, DType b) {
  return a == b && (a == DType::f32 || (a == DType::bf16 && cpu_has_bf16()));
}

Kernel conv_channels(const ConvShape& s, Carver& carve, const Stored& x, const Stored& w, const float* bias,
                     const StoredOut& y) {
  return correlate({.plan = forward_channels(summed_over(s, &ConvShape::c, w)),
                    .images = s.n,
                    .groups = s.groups,
                    .rows = s.m,
                    .w = {w, s.taps(), s.c * s.taps(), s.taps(), s.c},
                    .out = {s.window[0].out, s.window[1].out, s.window[2].out},
                    .source = channels_of(x, s.c),
                    .bias = bias,
                    .target = y},
                   carve);
}

Kernel conv_channels_grad_x(const ConvShape& s, Carver& carve, const Stored& dy, const Stored& w, const StoredOut& dx) {
  return correlate({.plan = grad_x_channels(summed_over(s, &ConvShape::m, w)),
                    .images = s.n,
                    .groups = s.groups,
                    .rows = s.c,
                    .w = {w, s.taps(), s.taps(), s.c * s.taps(), s.m},
                    .out = {s.window[0].in, s.window[1].in, s.window[2].in},
                    .source = channels_of(dy, s.m),
                    .bias = nullptr,
                    .target = dx},
                   carve);
}

}  // namespace amp
