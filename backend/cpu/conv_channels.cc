#include "backend/cpu/conv_channels.h"

#include <memory>

#include "backend/cpu/conv_channels_pack.h"

namespace amp {

namespace {

using namespace conv_tiles;

constexpr int64_t kPixels = 192;  // of a task; whole tiles of 6, 8 and 12
constexpr int64_t kChunk = 128;   // rows of weights at a time: 64 columns of them stay in the nearest cache
constexpr int64_t kImages = int64_t{4} << 20;  // floats of packed images at a time, where more than one is there

// Rows pixels (base: where each begins) by Columns vectors: sums += image * weights over runs. Products are summed by
// themselves before they are added: rounding errors grow with a chunk's rows, not with all.
template <int Lanes, int Columns, int Rows>
AMP_INLINE inline void multiply(const float* image, const int64_t* base, const ChannelPlan::Run* run, size_t runs,
                                const float* w, int64_t width, float* sums) {
  using V = typename VectorOf<Lanes>::type;
  V acc[Rows][Columns];
  for (int r = 0; r < Rows; ++r) {
    for (int j = 0; j < Columns; ++j) acc[r][j] = V{};
  }
  for (size_t k = 0; k < runs; ++k) {
    const float* at[Rows];
    for (int r = 0; r < Rows; ++r) at[r] = image + base[r] + run[k].offset;
    const float* row = w + run[k].row * width;
    for (int64_t i = 0; i < run[k].length; ++i, row += width) {
      V v[Columns];
      for (int j = 0; j < Columns; ++j) v[j] = *reinterpret_cast<const V*>(row + j * Lanes);
      for (int r = 0; r < Rows; ++r) {
        const float x = at[r][i];
        for (int j = 0; j < Columns; ++j) acc[r][j] += x * v[j];
      }
    }
  }
  for (int r = 0; r < Rows; ++r) {
    for (int j = 0; j < Columns; ++j) *reinterpret_cast<V*>(sums + r * width + j * Lanes) += acc[r][j];
  }
}

template <int Lanes>
AMP_INLINE inline void multiply_tile(const float* image, const int64_t* base, const ChannelPlan::Run* run, size_t runs,
                                     const float* w, int64_t width, float* sums) {
  if constexpr (Lanes == 16) {
    if (width == 64)
      multiply<16, 4, 6>(image, base, run, runs, w, width, sums);
    else if (width == 48)
      multiply<16, 3, 8>(image, base, run, runs, w, width, sums);
    else if (width == 32)
      multiply<16, 2, 12>(image, base, run, runs, w, width, sums);
    else
      multiply<16, 1, 12>(image, base, run, runs, w, width, sums);
  } else {
    const int64_t rows = tile_rows(width);
    for (int64_t j = 0; j < width; j += 2 * Lanes) {
      if (rows % 6 == 0) {
        for (int64_t r = 0; r < rows; r += 6)
          multiply<Lanes, 2, 6>(image, base + r, run, runs, w + j, width, sums + r * width + j);
      } else {
        for (int64_t r = 0; r < rows; r += 4)
          multiply<Lanes, 2, 4>(image, base + r, run, runs, w + j, width, sums + r * width + j);
      }
    }
  }
}

// A correlation of packed images with packed weights: what forward and the gradient to x have in common.
struct ChannelCorrelation {
  ChannelPlan plan;
  int64_t images, groups, rows;  // rows: channels written, of a group
  // weight of (row, channel, tap): w[row * row_stride + channel * inner_stride + tap]
  int64_t taps, row_stride, inner_stride;
  std::array<int64_t, 3> out;                      // spatial extents written
  std::vector<std::vector<ChannelPlan::Run>> run;  // by part, in pieces of at most kChunk rows
  std::vector<std::vector<size_t>> chunk;          // by part: where chunks of at most kChunk rows end in `run`
  int64_t together;                                // images packed at a time

  const float *source, *w, *bias;
  float *target, *packed_w, *packed;

  int64_t out_size() const { return out[0] * out[1] * out[2]; }
  int64_t lanes() const { return round_up(rows, kLane); }
  int64_t part_rows(size_t part) const { return static_cast<int64_t>(plan.parts[part].tap.size()) * plan.channels; }
  int64_t part_at(size_t part) const {
    int64_t at = 0;
    for (size_t p = 0; p < part; ++p) at += groups * part_rows(p) * lanes();
    return at;
  }

  void cut_runs();
  void run_all() const;
  void pack_weights(size_t part, int64_t g, int64_t block) const;
  template <int Lanes>
  AMP_INLINE inline void pack_rows(const ChannelPlan::Part& part, const float* from, int64_t first, int64_t width,
                                   float* to) const;
  void run_task(size_t part, int64_t image, int64_t n_images, int64_t pixel, int64_t block) const;
};

void ChannelCorrelation::cut_runs() {
  for (const ChannelPlan::Part& part : plan.parts) {
    std::vector<ChannelPlan::Run> pieces;
    std::vector<size_t> ends;
    int64_t held = 0;
    for (const ChannelPlan::Run& r : part.runs) {
      for (int64_t at = 0; at < r.length;) {
        if (held == kChunk) ends.push_back(pieces.size()), held = 0;
        const int64_t n = std::min(kChunk - held, r.length - at);
        pieces.push_back({r.offset + at, n, r.row + at});
        at += n, held += n;
      }
    }
    ends.push_back(pieces.size());
    run.push_back(std::move(pieces));
    chunk.push_back(std::move(ends));
  }
}

// Columns [first, first + width) of a part's weights, channel by channel.
template <int Lanes>
AMP_INLINE inline void ChannelCorrelation::pack_rows(const ChannelPlan::Part& part, const float* from, int64_t first,
                                                     int64_t width, float* to) const {
  const int64_t k = plan.channels * taps;
  if (row_stride == k && plan.parts.size() == 1) {  // a row's weights are neighbours, in the order of the taps
    for (int64_t m = 0; m < width; m += 16) {
      const int64_t n = std::min<int64_t>(16, rows - first - m);
      for (int64_t j = 0; j < k; j += 16) {
        transpose_block<Lanes>(
            from + (first + m) * k + j, k, n, std::min<int64_t>(16, k - j),
            [&](int64_t i) AMP_INLINE { return to + ((j + i) % taps * plan.channels + (j + i) / taps) * width + m; });
      }
    }
    return;
  }
  const int64_t n = std::min(width, rows - first);
  for (size_t t = 0; t < part.tap.size(); ++t) {
    for (int64_t c = 0; c < plan.channels; ++c, to += width) {
      const float* at = from + c * inner_stride + first * row_stride + part.tap[t];
      for (int64_t m = 0; m < n; ++m) to[m] = at[m * row_stride];
      std::fill(to + n, to + width, 0.0f);
    }
  }
}

void ChannelCorrelation::pack_weights(size_t p, int64_t g, int64_t block) const {
  const float* from = w + g * std::max(rows * row_stride, plan.channels * inner_stride);
  float* to = packed_w + part_at(p) + (g * lanes() + block * kBlock) * part_rows(p);
  at_level([&]<int Lanes>()
               AMP_INLINE { pack_rows<Lanes>(plan.parts[p], from, block * kBlock, block_width(rows, block), to); });
}

// Pixels from `pixel` on, counted over the packed images, by one block of channels. image: the first packed one.
void ChannelCorrelation::run_task(size_t p, int64_t image, int64_t n_images, int64_t pixel, int64_t block) const {
  const ChannelPlan::Part& part = plan.parts[p];
  const int64_t per_image = part.pixels(), pixels = std::min(kPixels, n_images * per_image - pixel);
  const int64_t width = block_width(rows, block), tile = tile_rows(width), padded = round_up(pixels, tile);
  int64_t base[kPixels], to[kPixels];
  alignas(64) float sums[kPixels * kBlock];
  const auto& [d, h, ww] = plan.axis;
  int64_t item = pixel / per_image;
  BoxWalk walk(part.count, pixel % per_image);
  for (int64_t i = 0; i < pixels; ++i) {
    const auto [z, y, x] = walk.at;
    base[i] =
        item * plan.image_size() + ((z * d.stride * h.length + y * h.stride) * ww.length + x * ww.stride) * plan.pitch;
    to[i] = (image + item) * rows * out_size() +
            ((part.start[0] + z * part.step[0]) * out[1] + part.start[1] + y * part.step[1]) * out[2] + part.start[2] +
            x * part.step[2];
    walk.next();
    if (walk.at == std::array<int64_t, 3>{}) ++item;
  }
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
  const float* weights = packed_w + part_at(p) + (g * lanes() + block * kBlock) * part_rows(p);
  at_level([&]<int Lanes>() AMP_INLINE {
    size_t begin = 0;
    for (const size_t end : chunk[p]) {
      for (int64_t i = 0; i < padded; i += tile) {
        multiply_tile<Lanes>(packed, base + i, run[p].data() + begin, end - begin, weights, width, sums + i * width);
      }
      begin = end;
    }
    store_pixels<Lanes>(sums, width, to, pixels, std::min(width, rows - block * kBlock),
                        target + block * kBlock * out_size(), out_size());
  });
}

void ChannelCorrelation::run_all() const {
  const int64_t blocks = block_count(rows), parts = static_cast<int64_t>(plan.parts.size());
  parallel_for(parts * groups * blocks, [&](int64_t i) {
    pack_weights(static_cast<size_t>(i / (groups * blocks)), i / blocks % groups, i % blocks);
  });
  // With groups, the images of one group lie apart: one at a time.
  for (int64_t at = 0; at < images * groups; at += together) {
    const int64_t n = std::min(together, images * groups - at);
    pack_images(plan, source + at * plan.channels * plan.source_size(), n, packed);
    for (int64_t p = 0; p < parts; ++p) {
      const auto part = static_cast<size_t>(p);
      const int64_t tasks = (n * plan.parts[part].pixels() + kPixels - 1) / kPixels;
      parallel_for(tasks * blocks, [&](int64_t i) { run_task(part, at, n, i / blocks * kPixels, i % blocks); });
    }
  }
}

Kernel correlate(ChannelCorrelation c, Carver& carve) {
  c.cut_runs();
  c.together = c.groups > 1 ? 1 : std::clamp<int64_t>(kImages / c.plan.image_size(), 1, c.images);
  c.packed_w = carve.take<float>(c.part_at(c.plan.parts.size()));
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
