// Convolution of small images, vectorized over the batch (conv_batch.h). Each output pixel has a list of terms
// (source pixel, tap), so taps outside the image cost nothing. The gradient to x uses the same code with transposed
// lists.

#include "backend/cpu/conv/conv_batch.h"

#include <memory>

#include "backend/cpu/conv/conv_batch_lanes.h"
#include "backend/cpu/conv/conv_tiles.h"
#include "backend/cpu/gemm/block_transpose.h"

namespace amp {

namespace {

using namespace conv_tiles;
using conv_batch_lanes::by_sixteen, conv_batch_lanes::Lanes, conv_batch_lanes::lanes_of;

// Number of vectors of images in a register tile.
template <int Level>
constexpr int kVectors = Level == 16 ? 4 : 2;

// A term of a target pixel's sum: the weight of a tap times a source pixel.
struct Term {
  int32_t source, tap;
};

// A correlation of small images, used by forward and by the gradient to x.
struct BatchCorrelation {
  Lanes source;
  // rows: channels per group that are written; pixels: of their planes; taps: of the kernel.
  int64_t rows, pixels, taps;
  // The weight of (row, inner, tap) is w[row * row_stride + inner * inner_stride + tap].
  int64_t row_stride, inner_stride;
  std::vector<int32_t> first;  // index of each pixel's first term
  std::vector<Term> terms;
  int64_t chunks;  // number of chunks into which the pixels are divided

  const float *from, *w, *bias;
  float *to, *packed, *packed_w, *packed_bias, *result;

  int64_t panels() const { return (rows + 5) / 6 + (rows % 6 == 3 || rows % 6 == 5 ? 1 : 0); }
  int64_t chunk() const { return (pixels + chunks - 1) / chunks; }
  int64_t result_size() const { return 6 * chunk() * source.lanes; }
  int64_t weights() const { return rows * source.channels * taps; }

  void pack_weights() const;
  void run_shard(int64_t shard) const;
  void unpack(const float* sums, int64_t channel, int64_t begin, int64_t end) const;
  template <int Level, int Rows>
  AMP_INLINE inline void panel(const float* in, const float* weight, const float* bias_of, int64_t begin, int64_t end,
                               float* sums) const;
  template <int Level, int Rows, int Vectors>
  AMP_INLINE inline void tile(const float* in, const float* weight, const float* bias_of, int64_t pixel, float* sums,
                              int64_t ld) const;
};

void BatchCorrelation::pack_weights() const {
  float* out = packed_w;
  for (int64_t g = 0; g < source.groups; ++g) {
    const float* in = w + g * weights();
    for (int64_t m = 0; m < rows;) {
      const int64_t n = panel_rows(rows - m);
      for (int64_t t = 0; t < taps; ++t) {
        for (int64_t c = 0; c < source.channels; ++c) {
          for (int64_t i = 0; i < n; ++i) *out++ = in[(m + i) * row_stride + c * inner_stride + t];
        }
      }
      m += n;
    }
  }
  for (int64_t i = 0; i < source.groups * rows; ++i) packed_bias[i] = bias ? bias[i] : 0.0f;
}

template <int Level, int Rows, int Vectors>
AMP_INLINE inline void BatchCorrelation::tile(const float* in, const float* weight, const float* bias_of, int64_t pixel,
                                              float* sums, int64_t ld) const {
  using V = typename cpu::VectorOf<Level>::type;
  V acc[Rows][Vectors];
  for (int m = 0; m < Rows; ++m) {
    for (int j = 0; j < Vectors; ++j) acc[m][j] = V{} + bias_of[m];
  }
  const auto at = static_cast<size_t>(pixel);
  for (const Term *t = terms.data() + first[at], *last = terms.data() + first[at + 1]; t < last; ++t) {
    const float* x = in + t->source * source.pixel_step();
    const float* q = weight + t->tap * source.channels * Rows;
    for (int64_t c = 0; c < source.channels; ++c, x += source.lanes, q += Rows) {
      V v[Vectors];
      for (int j = 0; j < Vectors; ++j) v[j] = *reinterpret_cast<const V*>(x + j * Level);
      for (int m = 0; m < Rows; ++m) {
        for (int j = 0; j < Vectors; ++j) acc[m][j] += q[m] * v[j];
      }
    }
  }
  for (int m = 0; m < Rows; ++m) {
    for (int j = 0; j < Vectors; ++j) *reinterpret_cast<V*>(sums + m * ld + j * Level) = acc[m][j];
  }
}

// Computes the sums of Rows channels for pixels [begin, end), stored as (channel, pixel, lane).
template <int Level, int Rows>
AMP_INLINE inline void BatchCorrelation::panel(const float* in, const float* weight, const float* bias_of,
                                               int64_t begin, int64_t end, float* sums) const {
  constexpr int kWide = kVectors<Level>;
  const int64_t ld = chunk() * source.lanes;
  for (int64_t p = begin; p < end; ++p) {
    float* out = sums + (p - begin) * source.lanes;
    int64_t i = 0;
    for (; i + kWide * Level <= source.lanes; i += kWide * Level)
      tile<Level, Rows, kWide>(in + i, weight, bias_of, p, out + i, ld);
    for (; i < source.lanes; i += Level) tile<Level, Rows, 1>(in + i, weight, bias_of, p, out + i, ld);
  }
}

// Writes pixels [begin, end) of one channel to the images. `channel` counts the channels of all groups.
void BatchCorrelation::unpack(const float* sums, int64_t channel, int64_t begin, int64_t end) const {
  const int64_t step = source.groups * rows * pixels;
  float* const out = to + channel * pixels + begin;
  at_level([&]<int Level>() AMP_INLINE {
    for (int64_t i = 0; i < source.images; i += 16) {
      const int64_t images = std::min<int64_t>(16, source.images - i);
      by_sixteen(end - begin, [&](int64_t p, int64_t n) AMP_INLINE {
        const float* block = sums + p * source.lanes + i;
        float* const first_image = out + i * step + p;
        if (n == 16 && images == 16) {
          cpu::transpose_block<Level>(block, source.lanes, 16, 16,
                                      [&](int64_t j) AMP_INLINE { return first_image + j * step; });
          return;
        }
        for (int64_t j = 0; j < images; ++j) {
          for (int64_t k = 0; k < n; ++k) first_image[j * step + k] = block[k * source.lanes + j];
        }
      });
    }
  });
}

void BatchCorrelation::run_shard(int64_t shard) const {
  const int64_t chunk_at = shard % chunks, panel_at = shard / chunks % panels(), g = shard / chunks / panels();
  const int64_t begin = chunk_at * chunk(), end = std::min(pixels, begin + chunk());
  if (begin >= end) return;
  int64_t m = 0;
  for (int64_t p = 0; p < panel_at; ++p) m += panel_rows(rows - m);
  const int64_t n = panel_rows(rows - m);
  const float *in = packed + g * source.of_group(), *bias_of = packed_bias + g * rows + m,
              *weight = packed_w + g * weights() + m * source.channels * taps;
  float* sums = result + shard * result_size();
  at_level([&]<int Level>() AMP_INLINE {
    if (n == 6)
      panel<Level, 6>(in, weight, bias_of, begin, end, sums);
    else if (n == 4)
      panel<Level, 4>(in, weight, bias_of, begin, end, sums);
    else if (n == 2)
      panel<Level, 2>(in, weight, bias_of, begin, end, sums);
    else
      panel<Level, 1>(in, weight, bias_of, begin, end, sums);
  });
  for (int64_t i = 0; i < n; ++i) unpack(sums + i * chunk() * source.lanes, g * rows + m + i, begin, end);
}

Kernel correlate(BatchCorrelation c, Carver& carve) {
  const int64_t panels = c.source.groups * c.panels();
  c.chunks = std::max<int64_t>(1, std::min(c.pixels / 16, (16 + panels - 1) / panels));
  const int64_t shards = panels * c.chunks;
  c.packed = carve.take<float>(c.source.size());
  c.packed_w = carve.take<float>(c.source.groups * c.weights());
  c.packed_bias = carve.take<float>(c.source.groups * c.rows);
  c.result = carve.take<float>(shards * c.result_size());
  return [s = std::make_shared<const BatchCorrelation>(std::move(c)), shards] {
    s->pack_weights();
    s->source.pack(s->from, s->packed);
    parallel_for(shards, [&](int64_t shard) { s->run_shard(shard); });
  };
}

using AxisTerms = std::vector<std::vector<Term>>;  // indexed by target position

// Returns the terms of each target along an axis. source_of(target, tap) returns the source, or -1.
template <class F>
AxisTerms axis_terms(int64_t targets, int64_t kernel, const F& source_of) {
  AxisTerms all(static_cast<size_t>(targets));
  for (int64_t i = 0; i < targets; ++i) {
    for (int64_t k = 0; k < kernel; ++k) {
      if (const int64_t from = source_of(i, k); from >= 0)
        all[static_cast<size_t>(i)].push_back({static_cast<int32_t>(from), static_cast<int32_t>(k)});
    }
  }
  return all;
}

AxisTerms forward_terms(const WindowAxis& a) {
  return axis_terms(a.out, a.kernel, [&](int64_t o, int64_t k) {
    const int64_t i = a.at(o, k);
    return i >= 0 && i < a.in ? i : int64_t{-1};
  });
}
AxisTerms grad_x_terms(const WindowAxis& a) {
  return axis_terms(a.in, a.kernel, [&](int64_t i, int64_t k) {
    const int64_t at = i + a.pad - k * a.dilation;
    return at >= 0 && at % a.stride == 0 && at / a.stride < a.out ? at / a.stride : int64_t{-1};
  });
}

void combine(const std::array<AxisTerms, 3>& axes, const std::array<int64_t, 3>& extent,
             const std::array<int64_t, 3>& kernel, BatchCorrelation& c) {
  for (const auto& d : axes[0]) {
    for (const auto& h : axes[1]) {
      for (const auto& w : axes[2]) {
        c.first.push_back(static_cast<int32_t>(c.terms.size()));
        for (const Term& i : d) {
          for (const Term& j : h) {
            for (const Term& k : w) {
              const int64_t source = (i.source * extent[1] + j.source) * extent[2] + k.source,
                            tap = (i.tap * kernel[1] + j.tap) * kernel[2] + k.tap;
              c.terms.push_back({static_cast<int32_t>(source), static_cast<int32_t>(tap)});
            }
          }
        }
      }
    }
  }
  c.first.push_back(static_cast<int32_t>(c.terms.size()));
}

std::array<int64_t, 3> extents(const SlidingWindow& w, int64_t WindowAxis::*of) {
  return {w[0].*of, w[1].*of, w[2].*of};
}

}  // namespace

Kernel conv_batch(const ConvShape& s, Carver& carve, const float* x, const float* w, const float* bias, float* y) {
  BatchCorrelation c{};
  c.source = {s.n, s.groups, s.c, s.in_size(), lanes_of(s)};
  c.rows = s.m, c.pixels = s.out_size(), c.taps = s.taps();
  c.row_stride = s.c * s.taps(), c.inner_stride = s.taps();
  combine({forward_terms(s.window[0]), forward_terms(s.window[1]), forward_terms(s.window[2])},
          extents(s.window, &WindowAxis::in), extents(s.window, &WindowAxis::kernel), c);
  c.from = x, c.w = w, c.bias = bias, c.to = y;
  return correlate(std::move(c), carve);
}

Kernel conv_batch_grad_x(const ConvShape& s, Carver& carve, const float* dy, const float* w, float* dx) {
  BatchCorrelation c{};
  c.source = {s.n, s.groups, s.m, s.out_size(), lanes_of(s)};
  c.rows = s.c, c.pixels = s.in_size(), c.taps = s.taps();
  c.row_stride = s.taps(), c.inner_stride = s.c * s.taps();
  combine({grad_x_terms(s.window[0]), grad_x_terms(s.window[1]), grad_x_terms(s.window[2])},
          extents(s.window, &WindowAxis::out), extents(s.window, &WindowAxis::kernel), c);
  c.from = dy, c.w = w, c.bias = nullptr, c.to = dx;
  return correlate(std::move(c), carve);
}

}  // namespace amp
