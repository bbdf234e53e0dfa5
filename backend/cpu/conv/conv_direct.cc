// Direct convolution vectorized over pixels (conv_direct.h): forward and the gradient to x. A shard packs the planes of
// one image and group at a time, then computes panels of up to 6 output channels over chunks of positions.

#include "backend/cpu/conv/conv_direct.h"

#include <memory>

#include "backend/cpu/conv/conv_tiles.h"

namespace amp {

namespace {

using namespace conv_tiles;

// Positions computed at a time; their inputs stay in the first- and second-level caches.
constexpr int64_t kFlatChunk = 1536;

template <int Lanes, int Rows, int Columns>
AMP_INLINE inline void tile(const float* x, const int32_t* offset, int64_t k, const float* w, const float* bias,
                            float* out, int64_t ld) {
  using V = typename VectorOf<Lanes>::type;
  V acc[Rows][Columns];
  for (int m = 0; m < Rows; ++m) {
    for (int j = 0; j < Columns; ++j) acc[m][j] = V{} + bias[m];
  }
  for (int64_t i = 0; i < k; ++i, w += Rows) {
    const float* p = x + offset[i];
    V v[Columns];
    for (int j = 0; j < Columns; ++j) v[j] = *reinterpret_cast<const V*>(p + j * Lanes);
    for (int m = 0; m < Rows; ++m) {
      for (int j = 0; j < Columns; ++j) acc[m][j] += w[m] * v[j];
    }
  }
  for (int m = 0; m < Rows; ++m) {
    for (int j = 0; j < Columns; ++j) *reinterpret_cast<V*>(out + m * ld + j * Lanes) = acc[m][j];
  }
}

// Computes n positions, a multiple of Lanes, of Rows output channels.
template <int Lanes, int Rows>
AMP_INLINE inline void tiles(const float* x, const int32_t* offset, int64_t k, const float* w, const float* bias,
                             float* out, int64_t n, int64_t ld) {
  constexpr int kWide = kColumns<Lanes, Rows>;
  int64_t i = 0;
  for (; i + kWide * Lanes <= n; i += kWide * Lanes) tile<Lanes, Rows, kWide>(x + i, offset, k, w, bias, out + i, ld);
  for (; i + 2 * Lanes <= n; i += 2 * Lanes) tile<Lanes, Rows, 2>(x + i, offset, k, w, bias, out + i, ld);
  for (; i + Lanes <= n; i += Lanes) tile<Lanes, Rows, 1>(x + i, offset, k, w, bias, out + i, ld);
}

template <int Lanes>
AMP_INLINE inline void panel(int64_t rows, const float* x, const int32_t* offset, int64_t k, const float* w,
                             const float* bias, float* out, int64_t n, int64_t ld) {
  if (rows == 6)
    tiles<Lanes, 6>(x, offset, k, w, bias, out, n, ld);
  else if (rows == 4)
    tiles<Lanes, 4>(x, offset, k, w, bias, out, n, ld);
  else if (rows == 2)
    tiles<Lanes, 2>(x, offset, k, w, bias, out, n, ld);
  else
    tiles<Lanes, 1>(x, offset, k, w, bias, out, n, ld);
}

// A correlation of packed planes with packed weights, used by forward and by the gradient to x.
struct Correlation {
  ShiftPlan plan;
  int64_t images, groups, inner, rows;  // channels per group; inner: that the correlation reads, rows: that it writes
  // The weight of (row, inner, tap) is w[row * row_stride + inner * inner_stride + tap].
  int64_t taps, row_stride, inner_stride;
  std::array<int64_t, 3> out;                // spatial extents that the correlation writes
  std::vector<std::vector<int32_t>> offset;  // for each of plan.parts: where (inner, tap) reads in the planes
  int64_t shards, ld, weights;

  const float *source, *w, *bias;
  float *target, *packed_w, *packed_bias, *planes, *result;

  int64_t out_size() const { return out[0] * out[1] * out[2]; }
  int64_t planes_size() const { return round_up(inner * plan.channel_size() + kSlack, kLane); }

  void pack_weights() const;
  void run_shard(int64_t shard) const;
  void scatter(const ShiftPlan::Part& part, int64_t begin, int64_t end, int64_t depth, int64_t n_rows,
               const float* from, float* to) const;
  template <int Lanes>
  AMP_INLINE inline void run_part(size_t part, int64_t g, const float* w_of_part, const float* planes_of,
                                  float* result_of, float* to) const;
};

void Correlation::pack_weights() const {
  float* to = packed_w;
  for (const ShiftPlan::Part& part : plan.parts) {
    for (int64_t g = 0; g < groups; ++g) {
      const float* from = w + g * std::max(rows * row_stride, inner * inner_stride);
      for (int64_t m = 0; m < rows;) {
        const int64_t n = panel_rows(rows - m);
        for (int64_t c = 0; c < inner; ++c) {
          for (const int64_t t : part.tap) {
            for (int64_t i = 0; i < n; ++i) *to++ = from[(m + i) * row_stride + c * inner_stride + t];
          }
        }
        m += n;
      }
    }
  }
  for (int64_t i = 0; i < groups * rows; ++i) packed_bias[i] = bias ? bias[i] : 0.0f;
}

// Copies positions [begin, end) of a part at one depth to n_rows channels of the output. The gap at the end of each
// line of pixels is not copied.
void Correlation::scatter(const ShiftPlan::Part& part, int64_t begin, int64_t end, int64_t depth, int64_t n_rows,
                          const float* from, float* to) const {
  const int64_t pitch = plan.axis[2].length, step = part.step[2];
  const int64_t d = part.start[0] + depth * part.step[0];
  for (int64_t m = 0; m < n_rows; ++m) {
    for (int64_t h = begin / pitch; h < part.count[1] && h * pitch < end; ++h) {
      const int64_t b = std::max(begin, h * pitch), e = std::min(end, h * pitch + part.count[2]);
      if (b >= e) continue;
      float* row = to + m * out_size() + (d * out[1] + part.start[1] + h * part.step[1]) * out[2] + part.start[2] +
                   (b - h * pitch) * step;
      const float* values = from + m * ld + (b - begin);
      if (step == 1)
        std::copy(values, values + (e - b), row);
      else
        for (int64_t i = 0; i < e - b; ++i) row[i * step] = values[i];
    }
  }
}

template <int Lanes>
AMP_INLINE inline void Correlation::run_part(size_t index, int64_t g, const float* w_of_part, const float* planes_of,
                                             float* result_of, float* to) const {
  const ShiftPlan::Part& part = plan.parts[index];
  const auto k = static_cast<int64_t>(offset[index].size());
  const int64_t flat = plan.flat(part);
  for (int64_t depth = 0; depth < part.count[0]; ++depth) {
    const float* x = planes_of + depth * plan.axis[1].length * plan.axis[2].length;
    for (int64_t b = 0; b < flat; b += kFlatChunk) {
      const int64_t n = std::min(kFlatChunk, flat - b);
      const float* weights_at = w_of_part;
      for (int64_t m = 0; m < rows;) {
        const int64_t n_rows = panel_rows(rows - m);
        panel<Lanes>(n_rows, x + b, offset[index].data(), k, weights_at, packed_bias + g * rows + m, result_of,
                     round_up(n, Lanes), ld);
        scatter(part, b, b + n, depth, n_rows, result_of, to + m * out_size());
        weights_at += n_rows * k;
        m += n_rows;
      }
    }
  }
}

void Correlation::run_shard(int64_t shard) const {
  float* my_planes = planes + shard * planes_size();
  float* my_result = result + shard * 6 * ld;
  const int64_t items = images * groups, begin = items * shard / shards, end = items * (shard + 1) / shards;
  for (int64_t item = begin; item < end; ++item) {
    const int64_t g = item % groups;
    pack_planes(plan, source + item * inner * plan.axis[0].source * plan.axis[1].source * plan.axis[2].source, inner,
                my_planes);
    const float* w_of_part = packed_w;
    for (size_t p = 0; p < plan.parts.size(); ++p) {
      const int64_t per_group = rows * static_cast<int64_t>(offset[p].size());
      at_level([&]<int Lanes>() AMP_INLINE {
        run_part<Lanes>(p, g, w_of_part + g * per_group, my_planes, my_result, target + item * rows * out_size());
      });
      w_of_part += groups * per_group;
    }
  }
}

Kernel correlate(Correlation c, Carver& carve) {
  for (const ShiftPlan::Part& part : c.plan.parts) {
    std::vector<int32_t> all;
    for (int64_t i = 0; i < c.inner; ++i) {
      for (const int32_t o : part.offset) all.push_back(static_cast<int32_t>(i * c.plan.channel_size()) + o);
    }
    c.offset.push_back(std::move(all));
  }
  c.ld = 0;
  for (const ShiftPlan::Part& part : c.plan.parts)
    c.ld = std::max(c.ld, round_up(std::min(kFlatChunk, c.plan.flat(part)), kLane));
  c.shards = std::min<int64_t>(c.images * c.groups, 32);
  c.packed_w = carve.take<float>(c.groups * c.rows * c.inner * c.taps);
  c.packed_bias = carve.take<float>(c.groups * c.rows);
  c.planes = carve.take<float>(c.shards * c.planes_size());
  c.result = carve.take<float>(c.shards * 6 * c.ld);
  return [s = std::make_shared<const Correlation>(std::move(c))] {
    s->pack_weights();
    parallel_for(s->shards, [&](int64_t shard) { s->run_shard(shard); });
  };
}

}  // namespace

Kernel conv_direct(const ConvShape& s, Carver& carve, const float* x, const float* w, const float* bias, float* y) {
  Correlation c{};
  c.plan = forward_plan(s.window);
  c.images = s.n, c.groups = s.groups, c.inner = s.c, c.rows = s.m;
  c.taps = s.taps(), c.row_stride = s.c * s.taps(), c.inner_stride = s.taps();
  for (size_t i = 0; i < 3; ++i) c.out[i] = s.window[i].out;
  c.source = x, c.w = w, c.bias = bias, c.target = y;
  return correlate(std::move(c), carve);
}

Kernel conv_direct_grad_x(const ConvShape& s, Carver& carve, const float* dy, const float* w, float* dx) {
  Correlation c{};
  c.plan = grad_x_plan(s.window);
  c.images = s.n, c.groups = s.groups, c.inner = s.m, c.rows = s.c;
  c.taps = s.taps(), c.row_stride = s.taps(), c.inner_stride = s.c * s.taps();
  for (size_t i = 0; i < 3; ++i) c.out[i] = s.window[i].in;
  c.source = dy, c.w = w, c.bias = nullptr, c.target = dx;
  return correlate(std::move(c), carve);
}

}  // namespace amp
