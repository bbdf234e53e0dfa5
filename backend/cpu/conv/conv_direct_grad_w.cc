// Gradient to the weight of conv_direct.h, in two implementations. The first is vectorized over pixels; its shards are
// parts of the batch, whose sums are added. The second needs at least 16 output channels: it is vectorized over the
// channels of a transposed dy, and its shards are ranges of taps.
#include <memory>

#include "backend/cpu/conv/conv_tiles.h"

namespace amp {

namespace {

using namespace conv_tiles;

// ---- vectorized over pixels

struct WeightGradient {
  ShiftPlan plan;
  ConvShape s;
  std::vector<int32_t> offset;  // offset of the element that each (c, tap) reads, padded to whole tiles
  int64_t shards, together;     // together: number of images packed at a time
  int64_t flat;                 // positions of one depth of dy, padded to whole vectors
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

// Packs dy with the row pitch of the planes, and zeros between the rows.
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

// out[m * k + tap] += sum over positions of dy[m] * plane[tap], for Rows output channels m.
template <int Lanes, int Rows>
AMP_INLINE inline void WeightGradient::rows_of(int64_t images, const float* planes_of, const float* grads_of,
                                               float* out) const {
  using V = typename VectorOf<Lanes>::type;
  constexpr int kTaps = kColumns<Lanes, Rows>;
  const int64_t depths = s.window[0].out, depth_step = plan.axis[1].length * plan.axis[2].length,
                row_step = depths * flat;
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
AMP_INLINE inline void WeightGradient::all_rows(int64_t images, const float* planes_of, const float* grads_of,
                                                float* out) const {
  for (int64_t m = 0; m < s.m;) {
    const int64_t n = panel_rows(s.m - m);
    const float* g = grads_of + m * s.window[0].out * flat;
    if (n == 6)
      rows_of<Lanes, 6>(images, planes_of, g, out + m * k());
    else if (n == 4)
      rows_of<Lanes, 4>(images, planes_of, g, out + m * k());
    else if (n == 2)
      rows_of<Lanes, 2>(images, planes_of, g, out + m * k());
    else
      rows_of<Lanes, 1>(images, planes_of, g, out + m * k());
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

// ---- vectorized over output channels

struct WeightGradientByChannel {
  ShiftPlan plan;
  ConvShape s;
  std::vector<int32_t> offset;  // offset of the element that each (c, tap) reads, padded to whole tiles
  int64_t lanes;                // number of output channels, padded to whole vectors
  int64_t shards;               // number of shards into which the taps of a group are divided
  const float *x, *dy;
  float *dw, *planes, *grads, *sums;  // grads: (item, pixel, lane), sums: (group, tap, lane)

  // A shard has a multiple of kTaps taps. kTaps is a multiple of the tiles of 6, 12 and 20 taps.
  static constexpr int64_t kTaps = 60;
  int64_t k() const { return s.c * s.taps(); }
  int64_t padded_k() const { return round_up(k(), kTaps); }
  int64_t planes_size() const { return round_up(s.c * plan.channel_size() + kSlack, kLane); }
  int64_t grads_size() const { return s.out_size() * lanes; }

  void pack(int64_t item) const;
  void run_shard(int64_t g, int64_t begin, int64_t end) const;
  void store(int64_t g, int64_t begin, int64_t end) const;
  template <int Lanes, int Taps, int Vectors>
  AMP_INLINE inline void block(int64_t g, int64_t begin, int64_t end, int64_t row0, int64_t row1, int64_t m,
                               float* out) const;
  template <int Lanes>
  AMP_INLINE inline void blocks(int64_t g, int64_t begin, int64_t end, int64_t row0, int64_t row1, float* out) const;
};

// Packs x as planes and dy as (pixel, channel).
void WeightGradientByChannel::pack(int64_t item) const {
  pack_planes(plan, x + item * s.c * s.in_size(), s.c, planes + item * planes_size());
  const float* from = dy + item * s.m * s.out_size();
  float* to = grads + item * grads_size();
  const int64_t pixels = s.out_size();
  for (int64_t p0 = 0; p0 < pixels; p0 += 16) {
    const int64_t p1 = std::min(pixels, p0 + 16);
    for (int64_t m = 0; m < s.m; ++m) {
      for (int64_t p = p0; p < p1; ++p) to[p * lanes + m] = from[m * pixels + p];
    }
    for (int64_t p = p0; p < p1; ++p) std::fill(to + p * lanes + s.m, to + (p + 1) * lanes, 0.0f);
  }
}

// out[tap][m..] += x[tap] * dy[m..] over rows [row0, row1) of (image, depth, height), for taps [begin, end).
template <int Lanes, int Taps, int Vectors>
AMP_INLINE inline void WeightGradientByChannel::block(int64_t g, int64_t begin, int64_t end, int64_t row0, int64_t row1,
                                                      int64_t m, float* out) const {
  using V = typename VectorOf<Lanes>::type;
  const auto& [d, h, w] = s.window;
  for (int64_t t = begin; t < end; t += Taps) {
    V acc[Taps][Vectors];
    for (int i = 0; i < Taps; ++i) {
      for (int j = 0; j < Vectors; ++j) acc[i][j] = *reinterpret_cast<const V*>(out + (t + i) * lanes + m + j * Lanes);
    }
    const int32_t* at = offset.data() + t;
    for (int64_t row = row0; row < row1; ++row) {
      const int64_t item = row / (d.out * h.out) * s.groups + g, od = row / h.out % d.out, oh = row % h.out;
      const float* in = planes + item * planes_size() + (od * plan.axis[1].length + oh) * plan.axis[2].length;
      const float* grad = grads + item * grads_size() + (od * h.out + oh) * w.out * lanes + m;
      for (int64_t i = 0; i < w.out; ++i, ++in, grad += lanes) {
        V v[Vectors];
        for (int j = 0; j < Vectors; ++j) v[j] = *reinterpret_cast<const V*>(grad + j * Lanes);
        for (int k = 0; k < Taps; ++k) {
          for (int j = 0; j < Vectors; ++j) acc[k][j] += in[at[k]] * v[j];
        }
      }
    }
    for (int i = 0; i < Taps; ++i) {
      for (int j = 0; j < Vectors; ++j) *reinterpret_cast<V*>(out + (t + i) * lanes + m + j * Lanes) = acc[i][j];
    }
  }
}

template <int Lanes>
AMP_INLINE inline void WeightGradientByChannel::blocks(int64_t g, int64_t begin, int64_t end, int64_t row0,
                                                       int64_t row1, float* out) const {
  int64_t m = 0;
  if constexpr (Lanes == 16) {
    for (; m + 4 * Lanes <= lanes; m += 4 * Lanes) block<Lanes, 6, 4>(g, begin, end, row0, row1, m, out);
    for (; m + 2 * Lanes <= lanes; m += 2 * Lanes) block<Lanes, 12, 2>(g, begin, end, row0, row1, m, out);
    for (; m < lanes; m += Lanes) block<Lanes, 20, 1>(g, begin, end, row0, row1, m, out);
  } else {
    for (; m + 2 * Lanes <= lanes; m += 2 * Lanes) block<Lanes, 6, 2>(g, begin, end, row0, row1, m, out);
    for (; m < lanes; m += Lanes) block<Lanes, 12, 1>(g, begin, end, row0, row1, m, out);
  }
}

void WeightGradientByChannel::run_shard(int64_t g, int64_t begin, int64_t end) const {
  float* out = sums + g * padded_k() * lanes;
  std::fill(out + begin * lanes, out + end * lanes, 0.0f);
  // dy of the rows that are processed at a time fits into the second-level cache.
  const int64_t rows = s.n * s.window[0].out * s.window[1].out;
  const int64_t step = std::max<int64_t>(1, (int64_t{192} << 10) / (4 * lanes * s.window[2].out));
  for (int64_t row = 0; row < rows; row += step) {
    at_level([&]<int Lanes>() AMP_INLINE { blocks<Lanes>(g, begin, end, row, std::min(rows, row + step), out); });
  }
}

void WeightGradientByChannel::store(int64_t g, int64_t begin, int64_t end) const {
  const float* from = sums + g * padded_k() * lanes;
  for (int64_t t = begin; t < std::min(end, k()); ++t) {
    for (int64_t m = 0; m < s.m; ++m) dw[(g * s.m + m) * k() + t] = from[t * lanes + m];
  }
}

Kernel by_channel(const ConvShape& s, Carver& carve, const float* x, const float* dy, float* dw) {
  WeightGradientByChannel g{};
  g.plan = forward_plan(s.window);
  g.s = s;
  g.x = x, g.dy = dy, g.dw = dw;
  g.lanes = round_up(s.m, kLane);
  for (int64_t c = 0; c < s.c; ++c) {
    for (const int32_t o : g.plan.parts[0].offset)
      g.offset.push_back(static_cast<int32_t>(c * g.plan.channel_size()) + o);
  }
  g.offset.resize(static_cast<size_t>(g.padded_k()), g.offset.back());
  const int64_t tiles = g.padded_k() / g.kTaps;
  g.shards = std::min<int64_t>(tiles, 16);
  g.planes = carve.take<float>(s.n * s.groups * g.planes_size());
  g.grads = carve.take<float>(s.n * s.groups * g.grads_size());
  g.sums = carve.take<float>(s.groups * g.padded_k() * g.lanes);
  return [p = std::make_shared<const WeightGradientByChannel>(std::move(g)), tiles] {
    parallel_for(p->s.n * p->s.groups, [&](int64_t item) { p->pack(item); });
    parallel_for(p->s.groups * p->shards, [&](int64_t i) {
      const int64_t g = i / p->shards, shard = i % p->shards;
      const int64_t begin = tiles * shard / p->shards * p->kTaps, end = tiles * (shard + 1) / p->shards * p->kTaps;
      p->run_shard(g, begin, end);
      p->store(g, begin, end);
    });
  };
}

Kernel by_pixel(const ConvShape& s, Carver& carve, const float* x, const float* dy, float* dw) {
  WeightGradient g{};
  g.plan = forward_plan(s.window);
  g.s = s;
  g.x = x, g.dy = dy, g.dw = dw;
  g.flat = round_up(g.plan.flat(g.plan.parts[0]), kLane);
  for (int64_t c = 0; c < s.c; ++c) {
    for (const int32_t o : g.plan.parts[0].offset)
      g.offset.push_back(static_cast<int32_t>(c * g.plan.channel_size()) + o);
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

}  // namespace

Kernel conv_direct_grad_w(const ConvShape& s, Carver& carve, const float* x, const float* dy, float* dw) {
  const int64_t weights = s.groups * s.m * s.c * s.taps();
  if (s.n == 0) return [dw, weights] { std::fill_n(dw, weights, 0.0f); };
  // The implementation with a transposed dy is faster if a plane has few pixels, or if the sums of shards are large.
  const ShiftPlan plan = forward_plan(s.window);
  const bool channels = s.m >= 16 && (plan.flat(plan.parts[0]) < 512 || weights > 65536);
  return channels ? by_channel(s, carve, x, dy, dw) : by_pixel(s, carve, x, dy, dw);
}

}  // namespace amp
