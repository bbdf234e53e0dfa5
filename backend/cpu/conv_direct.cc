#include "backend/cpu/conv_direct.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/simd.h"

namespace amp {

namespace {

// Register tiles: panels of 6, 4, 2 or 1 output channels, by as many vectors as the register file of the level holds
// (32 registers of 16 floats; 16 of 8; 16 of 4).
template <int Lanes, int Rows>
constexpr int kColumns = Lanes == 16 ? (Rows == 6 ? 4 : Rows == 4 ? 6 : 8) : (Rows == 6 ? 2 : Rows == 4 ? 3 : Rows == 2 ? 4 : 6);
constexpr int64_t kLane = 16;        // buffers are laid out for the widest level
constexpr int64_t kSlack = 160;      // floats that a tile may read past a plane
constexpr int64_t kFlatChunk = 1536; // positions computed at a time: their inputs stay in the nearest caches

template <int Lanes>
struct VectorOf {
  typedef float type __attribute__((vector_size(Lanes * 4), aligned(4)));
};

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
int64_t panel_rows(int64_t left) { return left >= 6 ? 6 : left >= 4 ? 4 : left >= 2 ? 2 : 1; }

// fn.template operator()<Lanes>() compiled for the level at hand.
template <class Fn>
void at_level(const Fn& fn) {
  const auto v4 = [&]() AMP_INLINE { fn.template operator()<16>(); };
  const auto v3 = [&]() AMP_INLINE { fn.template operator()<8>(); };
  const auto v2 = [&]() AMP_INLINE { fn.template operator()<4>(); };
  switch (cpu_isa()) {
    case Isa::v4: return detail::run_v4(v4);
    case Isa::v3: return detail::run_v3(v3);
    case Isa::v2: return detail::run_v2(v2);
  }
}

// ---- planes ----------------------------------------------------------------------------------------------------------

void pack_row(const ShiftPlan::Axis& a, int64_t phase, const float* source, float* to) {
  // Source positions p * phases + phase - origin: zeros before and behind.
  const int64_t shift = phase - a.origin;
  const int64_t begin = shift >= 0 ? 0 : std::min(a.length, (-shift + a.phases - 1) / a.phases);
  const int64_t room = a.source - shift;
  const int64_t end = room <= 0 ? begin : std::clamp((room + a.phases - 1) / a.phases, begin, a.length);
  std::fill(to, to + begin, 0.0f);
  if (a.phases == 1) {
    std::copy(source + shift + begin, source + shift + end, to + begin);
  } else {
    for (int64_t p = begin; p < end; ++p) to[p] = source[p * a.phases + shift];
  }
  std::fill(to + end, to + a.length, 0.0f);
}

// channels of one group of one image -> planes.
void pack_planes(const ShiftPlan& plan, const float* source, int64_t channels, float* to) {
  const auto& [d, h, w] = plan.axis;
  float* row = to;
  for (int64_t c = 0; c < channels; ++c, source += d.source * h.source * w.source) {
    for (const auto& phase : plan.planes) {
      for (int64_t pd = 0; pd < d.length; ++pd) {
        const int64_t id = pd * d.phases + phase[0] - d.origin;
        for (int64_t ph = 0; ph < h.length; ++ph, row += w.length) {
          const int64_t ih = ph * h.phases + phase[1] - h.origin;
          if (id < 0 || id >= d.source || ih < 0 || ih >= h.source) std::fill(row, row + w.length, 0.0f);
          else pack_row(w, phase[2], source + (id * h.source + ih) * w.source, row);
        }
      }
    }
  }
  std::fill_n(row, kSlack, 0.0f);
}

// ---- forward and gradient to x ------------------------------------------------------------------------------------------

template <int Lanes, int Rows, int Columns>
AMP_INLINE inline void tile(const float* x, const int32_t* offset, int64_t k, const float* w, const float* bias, float* out, int64_t ld) {
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

// n positions, a multiple of Lanes.
template <int Lanes, int Rows>
AMP_INLINE inline void tiles(const float* x, const int32_t* offset, int64_t k, const float* w, const float* bias, float* out, int64_t n, int64_t ld) {
  constexpr int kWide = kColumns<Lanes, Rows>;
  int64_t i = 0;
  for (; i + kWide * Lanes <= n; i += kWide * Lanes) tile<Lanes, Rows, kWide>(x + i, offset, k, w, bias, out + i, ld);
  for (; i + 2 * Lanes <= n; i += 2 * Lanes) tile<Lanes, Rows, 2>(x + i, offset, k, w, bias, out + i, ld);
  for (; i + Lanes <= n; i += Lanes) tile<Lanes, Rows, 1>(x + i, offset, k, w, bias, out + i, ld);
}

template <int Lanes>
AMP_INLINE inline void panel(int64_t rows, const float* x, const int32_t* offset, int64_t k, const float* w, const float* bias, float* out,
                             int64_t n, int64_t ld) {
  if (rows == 6) tiles<Lanes, 6>(x, offset, k, w, bias, out, n, ld);
  else if (rows == 4) tiles<Lanes, 4>(x, offset, k, w, bias, out, n, ld);
  else if (rows == 2) tiles<Lanes, 2>(x, offset, k, w, bias, out, n, ld);
  else tiles<Lanes, 1>(x, offset, k, w, bias, out, n, ld);
}

// A correlation of packed planes with packed weights: what forward and the gradient to x have in common.
struct Correlation {
  ShiftPlan plan;
  int64_t images, groups, inner, rows;          // channels read and written, of a group
  int64_t taps, row_stride, inner_stride;       // weight of (row, inner, tap): w[row * row_stride + inner * inner_stride + tap]
  std::array<int64_t, 3> out;                   // spatial extents written
  std::vector<std::vector<int32_t>> offset;     // by part: of every (inner, tap)
  int64_t shards, ld, weights;

  const float *source, *w, *bias;
  float *target, *packed_w, *packed_bias, *planes, *result;

  int64_t out_size() const { return out[0] * out[1] * out[2]; }
  int64_t planes_size() const { return round_up(inner * plan.channel_size() + kSlack, kLane); }

  void pack_weights() const;
  void run_shard(int64_t shard) const;
  void scatter(const ShiftPlan::Part& part, int64_t begin, int64_t end, int64_t depth, int64_t n_rows, const float* from, float* to) const;
  template <int Lanes>
  AMP_INLINE inline void run_part(size_t part, int64_t g, const float* w_of_part, const float* planes_of, float* result_of, float* to) const;
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

// Positions [begin, end) of one depth of a part, n_rows channels -> the output, without what lies between its rows.
void Correlation::scatter(const ShiftPlan::Part& part, int64_t begin, int64_t end, int64_t depth, int64_t n_rows, const float* from, float* to) const {
  const int64_t pitch = plan.axis[2].length, step = part.step[2];
  const int64_t d = part.start[0] + depth * part.step[0];
  for (int64_t m = 0; m < n_rows; ++m) {
    for (int64_t h = begin / pitch; h < part.count[1] && h * pitch < end; ++h) {
      const int64_t b = std::max(begin, h * pitch), e = std::min(end, h * pitch + part.count[2]);
      if (b >= e) continue;
      float* row = to + m * out_size() + (d * out[1] + part.start[1] + h * part.step[1]) * out[2] + part.start[2] + (b - h * pitch) * step;
      const float* values = from + m * ld + (b - begin);
      if (step == 1) std::copy(values, values + (e - b), row);
      else for (int64_t i = 0; i < e - b; ++i) row[i * step] = values[i];
    }
  }
}

template <int Lanes>
AMP_INLINE inline void Correlation::run_part(size_t index, int64_t g, const float* w_of_part, const float* planes_of, float* result_of, float* to) const {
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
        panel<Lanes>(n_rows, x + b, offset[index].data(), k, weights_at, packed_bias + g * rows + m, result_of, round_up(n, Lanes), ld);
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
    pack_planes(plan, source + item * inner * plan.axis[0].source * plan.axis[1].source * plan.axis[2].source, inner, my_planes);
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
  for (const ShiftPlan::Part& part : c.plan.parts) c.ld = std::max(c.ld, round_up(std::min(kFlatChunk, c.plan.flat(part)), kLane));
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

// ---- gradient to w -----------------------------------------------------------------------------------------------------

struct WeightGradient {
  ShiftPlan plan;
  ConvShape s;
  std::vector<int32_t> offset;   // of every (c, tap), padded to whole tiles
  int64_t shards, together;      // images per step
  int64_t flat;                  // positions of one depth of dy, padded to whole vectors
  const float *x, *dy;
  float *dw, *planes, *grads, *partial;

  int64_t planes_size() const { return round_up(s.c * plan.channel_size() + kSlack, kLane); }
  int64_t grads_size() const { return s.m * s.window[0].out * flat; }
  int64_t k() const { return s.c * s.taps(); }

  void pack_grads(const float* from, float* to) const;
  void run_shard(int64_t shard) const;
  template <int Lanes, int Rows>
  AMP_INLINE inline void rows_of(int64_t images, const float* planes_of, const float* grads_of, float* out) const;
  template <int Lanes>
  AMP_INLINE inline void all_rows(int64_t images, const float* planes_of, const float* grads_of, float* out) const;
};

// dy with the pitch of the planes; zeros between rows.
void WeightGradient::pack_grads(const float* from, float* to) const {
  const auto& [d, h, w] = s.window;
  const int64_t pitch = plan.axis[2].length;
  for (int64_t m = 0; m < s.m * d.out; ++m, to += flat) {
    for (int64_t i = 0; i < h.out; ++i, from += w.out) {
      std::copy(from, from + w.out, to + i * pitch);
      std::fill(to + i * pitch + w.out, to + std::min(flat, (i + 1) * pitch), 0.0f);
    }
    std::fill(to + std::min(flat, h.out * pitch), to + flat, 0.0f);
  }
}

// out[m * k + tap] += sum over positions of dy[m] * plane[tap], for Rows channels m.
template <int Lanes, int Rows>
AMP_INLINE inline void WeightGradient::rows_of(int64_t images, const float* planes_of, const float* grads_of, float* out) const {
  using V = typename VectorOf<Lanes>::type;
  constexpr int kTaps = kColumns<Lanes, Rows>;
  const int64_t depths = s.window[0].out, depth_step = plan.axis[1].length * plan.axis[2].length, row_step = depths * flat;
  for (int64_t t = 0; t < k(); t += kTaps) {
    V acc[Rows][kTaps];
    for (int m = 0; m < Rows; ++m) {
      for (int j = 0; j < kTaps; ++j) acc[m][j] = V{};
    }
    for (int64_t image = 0; image < images; ++image) {
      for (int64_t depth = 0; depth < depths; ++depth) {
        const float* in = planes_of + image * planes_size() + depth * depth_step;
        const float* grad = grads_of + image * grads_size() + depth * flat;
        const float* tap[kTaps];
        for (int j = 0; j < kTaps; ++j) tap[j] = in + offset[static_cast<size_t>(t + j)];
        for (int64_t i = 0; i < flat; i += Lanes) {
          V v[kTaps];
          for (int j = 0; j < kTaps; ++j) v[j] = *reinterpret_cast<const V*>(tap[j] + i);
          for (int m = 0; m < Rows; ++m) {
            const V g = *reinterpret_cast<const V*>(grad + m * row_step + i);
            for (int j = 0; j < kTaps; ++j) acc[m][j] += g * v[j];
          }
        }
      }
    }
    for (int m = 0; m < Rows; ++m) {
      for (int64_t j = 0; j < std::min<int64_t>(kTaps, k() - t); ++j) {
        float lane[Lanes];
        *reinterpret_cast<V*>(lane) = acc[m][j];
        for (int n = Lanes / 2; n > 0; n /= 2) {
          for (int l = 0; l < n; ++l) lane[l] += lane[l + n];
        }
        out[m * k() + t + j] += lane[0];
      }
    }
  }
}

template <int Lanes>
AMP_INLINE inline void WeightGradient::all_rows(int64_t images, const float* planes_of, const float* grads_of, float* out) const {
  for (int64_t m = 0; m < s.m;) {
    const int64_t n = panel_rows(s.m - m);
    const float* g = grads_of + m * s.window[0].out * flat;
    if (n == 6) rows_of<Lanes, 6>(images, planes_of, g, out + m * k());
    else if (n == 4) rows_of<Lanes, 4>(images, planes_of, g, out + m * k());
    else if (n == 2) rows_of<Lanes, 2>(images, planes_of, g, out + m * k());
    else rows_of<Lanes, 1>(images, planes_of, g, out + m * k());
    m += n;
  }
}

void WeightGradient::run_shard(int64_t shard) const {
  float* my_planes = planes + shard * together * planes_size();
  float* my_grads = grads + shard * together * grads_size();
  float* out = partial + shard * s.groups * s.m * k();
  std::fill_n(out, s.groups * s.m * k(), 0.0f);
  const int64_t begin = s.n * shard / shards, end = s.n * (shard + 1) / shards;
  for (int64_t g = 0; g < s.groups; ++g) {
    for (int64_t n = begin; n < end; n += together) {
      const int64_t images = std::min(together, end - n);
      for (int64_t i = 0; i < images; ++i) {
        pack_planes(plan, x + ((n + i) * s.groups + g) * s.c * s.in_size(), s.c, my_planes + i * planes_size());
        pack_grads(dy + ((n + i) * s.groups + g) * s.m * s.out_size(), my_grads + i * grads_size());
      }
      at_level([&]<int Lanes>() AMP_INLINE { all_rows<Lanes>(images, my_planes, my_grads, out + g * s.m * k()); });
    }
  }
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

Kernel conv_direct_grad_w(const ConvShape& s, Carver& carve, const float* x, const float* dy, float* dw) {
  if (s.n == 0) return [dw, n = s.groups * s.m * s.c * s.taps()] { std::fill_n(dw, n, 0.0f); };
  WeightGradient g{};
  g.plan = forward_plan(s.window);
  g.s = s;
  g.x = x, g.dy = dy, g.dw = dw;
  g.flat = round_up(g.plan.flat(g.plan.parts[0]), kLane);
  for (int64_t c = 0; c < s.c; ++c) {
    for (const int32_t o : g.plan.parts[0].offset) g.offset.push_back(static_cast<int32_t>(c * g.plan.channel_size()) + o);
  }
  for (int i = 0; i < 8; ++i) g.offset.push_back(g.offset.back());
  g.shards = std::min<int64_t>(s.n, 16);
  const int64_t bytes = 4 * (g.planes_size() + g.grads_size());
  g.together = std::clamp<int64_t>((int64_t{256} << 10) / bytes, 1, (s.n + g.shards - 1) / g.shards);
  g.planes = carve.take<float>(g.shards * g.together * g.planes_size());
  g.grads = carve.take<float>(g.shards * g.together * g.grads_size());
  const int64_t n = s.groups * s.m * g.k();
  g.partial = carve.take<float>(g.shards * n);
  return [p = std::make_shared<const WeightGradient>(std::move(g)), n] {
    parallel_for(p->shards, [&](int64_t shard) { p->run_shard(shard); });
    parallel_ranges(n, 16384, [&](int64_t b, int64_t e) {
      std::copy(p->partial + b, p->partial + e, p->dw + b);
      for (int64_t shard = 1; shard < p->shards; ++shard) {
        for (int64_t i = b; i < e; ++i) p->dw[i] += p->partial[shard * n + i];
      }
    });
  };
}

}  // namespace amp
