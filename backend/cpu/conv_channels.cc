#include "backend/cpu/conv_channels.h"

#include <memory>

#include "backend/cpu/conv_channels_pack.h"

namespace amp {

namespace {

using namespace conv_tiles;

constexpr int64_t kPixels = 192;      // of a task; whole tiles of 6, 8 and 12
constexpr int64_t kMostPixels = 768;  // of a task that packs its weights itself
constexpr int64_t kChunk = 144;       // rows of weights at a time: 64 columns of them stay in the nearest cache
constexpr int64_t kMostRows = 160;    // of a chunk that a task packs itself

// Rows pixels (base: where each begins) by Columns vectors: sums += image * weights over taps and `channels`. Products
// are summed by themselves before they are added: rounding errors grow with a chunk's rows, not with all.
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

// A correlation of packed images with packed weights: what forward and the gradient to x have in common.
//
// Weights are packed in chunks: a range of channels by all taps of a part, by a block of up to 64 columns. Where there
// are few pixels, a task has all of them and packs each chunk just before its use; else all are packed beforehand.
struct ChannelCorrelation {
  ChannelPlan plan;
  int64_t images, groups, rows;  // rows: channels written, of a group
  // weight of (row, channel, tap): w[row * row_stride + channel * inner_stride + tap]
  int64_t taps, row_stride, inner_stride;
  std::array<int64_t, 3> out;  // spatial extents written
  struct Part {
    int64_t channels = 0;  // of a chunk; the last one may have fewer
    int64_t at = 0;        // where its packed weights begin
  };
  std::vector<Part> parts;
  int64_t together;  // images packed at a time
  bool at_once;      // tasks pack their weights themselves

  const float *source, *w, *bias;
  float *target, *packed_w, *packed;

  int64_t out_size() const { return out[0] * out[1] * out[2]; }
  int64_t lanes() const { return round_up(rows, kLane); }
  int64_t part_rows(size_t part) const { return static_cast<int64_t>(plan.parts[part].tap.size()) * plan.channels; }

  void make_parts();
  void run_all() const;
  void pack_chunk(size_t part, int64_t g, int64_t block, int64_t channel, float* to) const;
  template <int Lanes>
  AMP_INLINE inline void pack_rows(const ChannelPlan::Part& part, const float* from, int64_t columns, int64_t width,
                                   int64_t channel, int64_t n, float* to) const;
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

// Rows (tap, channel) of channels [channel, channel + n), `width` columns of which the first `columns` exist. from: the
// first column's weights.
template <int Lanes>
AMP_INLINE inline void ChannelCorrelation::pack_rows(const ChannelPlan::Part& part, const float* from, int64_t columns,
                                                     int64_t width, int64_t channel, int64_t n, float* to) const {
  if (plan.parts.size() == 1 && inner_stride == taps &&
      row_stride == plan.channels * taps) {  // forward: a column's weights are neighbours
    for (int64_t m = 0; m < width; m += 16) {
      const float* at = from + m * row_stride + channel * taps;
      for (int64_t j = 0; j < n * taps; j += 16) {
        transpose_block<Lanes>(at + j, row_stride, columns - m, std::min<int64_t>(16, n * taps - j),
                               [&](int64_t i)
                                   AMP_INLINE { return to + ((j + i) % taps * n + (j + i) / taps) * width + m; });
      }
    }
    return;
  }
  for (int64_t c = 0; c < n; ++c) {  // a channel's weights are
    const float* at = from + (channel + c) * inner_stride;
    for (size_t t = 0; t < part.tap.size(); ++t) {
      float* row = to + (static_cast<int64_t>(t) * n + c) * width;
      const float* tap = at + part.tap[t];
      for (int64_t m = 0; m < columns; ++m) row[m] = tap[m * row_stride];
      std::fill(row + columns, row + width, 0.0f);
    }
  }
}

void ChannelCorrelation::pack_chunk(size_t p, int64_t g, int64_t block, int64_t channel, float* to) const {
  const float* from = w + g * std::max(rows * row_stride, plan.channels * inner_stride) + block * kBlock * row_stride;
  const int64_t width = block_width(rows, block);
  at_level([&]<int Lanes>() AMP_INLINE {
    pack_rows<Lanes>(plan.parts[p], from, std::min(width, rows - block * kBlock), width, channel,
                     std::min(parts[p].channels, plan.channels - channel), to);
  });
}

// Up to Most pixels from `pixel` on, counted over the packed images, by one block of channels. image: the first packed
// one.
template <int Most>
void ChannelCorrelation::run_task(size_t p, int64_t image, int64_t n_images, int64_t pixel, int64_t block) const {
  const ChannelPlan::Part& part = plan.parts[p];
  const int64_t pixels = std::min<int64_t>(Most, n_images * part.pixels() - pixel);
  const int64_t width = block_width(rows, block), tile = tile_rows(width), padded = round_up(pixels, tile);
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
  const float* weights = packed_w + of.at + (g * lanes() + block * kBlock) * part_rows(p);
  alignas(64) float chunk[kMostRows * kBlock];
  for (int64_t c = 0; c < plan.channels && n_taps > 0; c += of.channels) {
    const float* here = weights + c * n_taps * width;
    if (at_once) pack_chunk(p, g, block, c, chunk), here = chunk;
    const int64_t channels = std::min(of.channels, plan.channels - c);
    at_level([&]<int Lanes>() AMP_INLINE {
      for (int64_t i = 0; i < padded; i += tile) {
        register_tiles<Lanes>(width, [&]<int Columns, int Rows>(int64_t r, int64_t j) AMP_INLINE {
          multiply<Lanes, Columns, Rows>(packed + c, base + i + r, part.offset, channels, here + j, width,
                                         sums + (i + r) * width + j);
        });
      }
    });
  }
  at_level([&]<int Lanes>() AMP_INLINE {
    store_pixels<Lanes>(sums, width, to, pixels, std::min(width, rows - block * kBlock),
                        target + (image * rows + block * kBlock) * out_size(), out_size());
  });
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
    pack_images(plan, source + at * plan.channels * plan.source_size(), n, packed);
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

}  // namespace

Kernel conv_channels(const ConvShape& s, Carver& carve, const float* x, const float* w, const float* bias, float* y) {
  ChannelCorrelation c{};
  c.plan = forward_channels(s);
  c.images = s.n, c.groups = s.groups, c.rows = s.m;
  c.taps = s.taps(), c.row_stride = s.c * s.taps(), c.inner_stride = s.taps();
  for (size_t i = 0; i < 3; ++i) c.out[i] = s.window[i].out;
  c.source = x, c.w = w, c.bias = bias, c.target = y;
  return correlate(std::move(c), carve);
}

Kernel conv_channels_grad_x(const ConvShape& s, Carver& carve, const float* dy, const float* w, float* dx) {
  ChannelCorrelation c{};
  c.plan = grad_x_channels(s);
  c.images = s.n, c.groups = s.groups, c.rows = s.c;
  c.taps = s.taps(), c.row_stride = s.taps(), c.inner_stride = s.c * s.taps();
  for (size_t i = 0; i < 3; ++i) c.out[i] = s.window[i].in;
  c.source = dy, c.w = w, c.bias = nullptr, c.target = dx;
  return correlate(std::move(c), carve);
}

}  // namespace amp
