// Depthwise convolution vectorized over groups (conv_depthwise.h), with the plans and packed images of conv_channels.h.
// A packed image has one channel of each of 16 groups. The gradient to the weight sums pieces of the batch separately
// and adds them in order.

#include "backend/cpu/conv/conv_depthwise.h"

#include <memory>

#include "backend/cpu/conv/conv_channels.h"
#include "backend/cpu/conv/conv_channels_pack.h"

namespace amp {

namespace {

using namespace conv_tiles;

constexpr int64_t kPixelsAtOnce = 192;  // pixels processed at a time; a multiple of kTilePixels
constexpr int kTilePixels = 8;          // pixels of a tile in the correlation
constexpr int kTileTaps = 10;           // taps of a tile in the gradient to the weight; 3x3 needs one tile, 7x7 five

// Returns the shape with 16 channels per image, so that a tap is one vector of 16.
ConvShape sixteen(const ConvShape& s) {
  ConvShape t = s;
  t.c = t.m = kLane;
  return t;
}

// ---- forward, and the gradient to x

struct Depthwise {
  ChannelPlan plan;
  int64_t items, groups, taps, shards;  // items: pairs of an image and 16 groups; groups: in units of 16
  std::array<int64_t, 3> out;

  const float *source, *w, *bias;
  float *target, *packed_w, *packed;  // packed_w: (groups, taps, 16)

  int64_t out_size() const { return out[0] * out[1] * out[2]; }
  int64_t image_size() const { return round_up(plan.image_size() + kSlack, kLane); }
  void pack_weights() const;
  void run_item(int64_t item, float* image) const;
  template <int Lanes>
  AMP_INLINE inline void run_pixels(const ChannelPlan::Part& part, int64_t pixels, const float* image,
                                    const int64_t* base, const float* weights, const float* start, float* sums) const;
};

void Depthwise::pack_weights() const {
  for (int64_t g = 0; g < groups * kLane; ++g) {
    for (int64_t t = 0; t < taps; ++t) packed_w[(g / kLane * taps + t) * kLane + g % kLane] = w[g * taps + t];
  }
}

template <int Lanes>
AMP_INLINE inline void Depthwise::run_pixels(const ChannelPlan::Part& part, int64_t pixels, const float* image,
                                             const int64_t* base, const float* weights, const float* start,
                                             float* sums) const {
  using V = typename VectorOf<Lanes>::type;
  for (int64_t i = 0; i < pixels; i += kTilePixels) {
    for (int64_t lane = 0; lane < kLane; lane += Lanes) {
      V acc[kTilePixels];
      const float* at[kTilePixels];
      for (int r = 0; r < kTilePixels; ++r) {
        acc[r] = *reinterpret_cast<const V*>(start + lane);
        at[r] = image + base[i + r] + lane;
      }
      for (size_t t = 0; t < part.tap.size(); ++t) {
        const V v = *reinterpret_cast<const V*>(weights + part.tap[t] * kLane + lane);
        const int64_t o = part.offset[t];
        for (int r = 0; r < kTilePixels; ++r) acc[r] += v * *reinterpret_cast<const V*>(at[r] + o);
      }
      for (int r = 0; r < kTilePixels; ++r) *reinterpret_cast<V*>(sums + (i + r) * kLane + lane) = acc[r];
    }
  }
}

void Depthwise::run_item(int64_t item, float* image) const {
  pack_image_rows(plan, source + item * kLane * plan.source_size(), image, 0,
                  plan.axis[0].length * plan.axis[1].length);
  const int64_t g = item % groups;
  int64_t base[kPixelsAtOnce], to[kPixelsAtOnce];
  alignas(64) float sums[kPixelsAtOnce * kLane], start[kLane] = {};
  if (bias) std::copy_n(bias + g * kLane, kLane, start);
  for (const ChannelPlan::Part& part : plan.parts) {
    const int64_t all = part.pixels();
    for (int64_t first = 0; first < all; first += kPixelsAtOnce) {
      const int64_t n = std::min(kPixelsAtOnce, all - first), padded = round_up(n, kTilePixels);
      place_pixels(plan, part, first, n, base);
      place_outputs(part, out, out_size(), first, n, to);
      std::fill(base + n, base + padded, base[0]);
      at_level([&]<int Lanes>() AMP_INLINE {
        run_pixels<Lanes>(part, padded, image, base, packed_w + g * taps * kLane, start, sums);
        store_pixels<Lanes>(sums, kLane, to, n, kLane, target + item * kLane * out_size(), out_size());
      });
    }
  }
}

Kernel correlate_depthwise(Depthwise c, const ConvShape& s, Carver& carve) {
  c.groups = s.groups / kLane, c.items = s.n * c.groups, c.taps = s.taps();
  c.shards = std::min<int64_t>(c.items, 32);
  c.packed_w = carve.take<float>(s.groups * c.taps);
  c.packed = carve.take<float>(c.shards * c.image_size());
  return [p = std::make_shared<const Depthwise>(std::move(c))] {
    p->pack_weights();
    parallel_for(p->shards, [&](int64_t shard) {
      float* image = p->packed + shard * p->image_size();
      for (int64_t i = p->items * shard / p->shards; i < p->items * (shard + 1) / p->shards; ++i) p->run_item(i, image);
    });
  };
}

// ---- the gradient to the weight

struct DepthwiseWeightGradient {
  ChannelPlan plan;
  ConvShape s;
  int64_t groups, pieces;       // groups: in units of 16; pieces: parts of the batch
  std::vector<int64_t> offset;  // offset of the element that each tap reads, padded to whole tiles
  const float *x, *dy;
  float *dw, *packed, *grads, *sums;  // sums: (groups, pieces, taps, 16)

  int64_t image_size() const { return round_up(plan.image_size() + kSlack, kLane); }
  int64_t padded_taps() const { return static_cast<int64_t>(offset.size()); }
  void run_shard(int64_t g, int64_t piece) const;
  void store(int64_t g) const;
  template <int Lanes>
  AMP_INLINE inline void add(int64_t pixels, const int64_t* base, const float* image, const float* grad,
                             float* to) const;
};

// to[tap] += sum over pixels of image[base + offset of the tap] * grad[pixel], for 16 groups.
template <int Lanes>
AMP_INLINE inline void DepthwiseWeightGradient::add(int64_t pixels, const int64_t* base, const float* image,
                                                    const float* grad, float* to) const {
  using V = typename VectorOf<Lanes>::type;
  for (size_t t = 0; t < offset.size(); t += kTileTaps) {
    for (int64_t lane = 0; lane < kLane; lane += Lanes) {
      V acc[kTileTaps];
      const float* at[kTileTaps];
      for (size_t i = 0; i < kTileTaps; ++i) {
        acc[i] = V{};
        at[i] = image + offset[t + i] + lane;
      }
      for (int64_t p = 0; p < pixels; ++p) {
        const V v = *reinterpret_cast<const V*>(grad + p * kLane + lane);
        for (size_t i = 0; i < kTileTaps; ++i) acc[i] += v * *reinterpret_cast<const V*>(at[i] + base[p]);
      }
      for (size_t i = 0; i < kTileTaps; ++i)
        *reinterpret_cast<V*>(to + static_cast<int64_t>(t + i) * kLane + lane) += acc[i];
    }
  }
}

void DepthwiseWeightGradient::run_shard(int64_t g, int64_t piece) const {
  const int64_t shard = g * pieces + piece, size = s.out_size();
  float* image = packed + shard * image_size();
  float* grad = grads + shard * kPixelsAtOnce * kLane;
  float* to = sums + shard * padded_taps() * kLane;
  std::fill_n(to, padded_taps() * kLane, 0.0f);
  int64_t base[kPixelsAtOnce];
  for (int64_t n = s.n * piece / pieces; n < s.n * (piece + 1) / pieces; ++n) {
    const int64_t item = n * groups + g;
    pack_image_rows(plan, x + item * kLane * plan.source_size(), image, 0, plan.axis[0].length * plan.axis[1].length);
    for (int64_t first = 0; first < size; first += kPixelsAtOnce) {
      const int64_t pixels = std::min(kPixelsAtOnce, size - first);
      place_pixels(plan, plan.parts[0], first, pixels, base);
      at_level([&]<int Lanes>() AMP_INLINE {
        for (int64_t p = 0; p < pixels; p += 16) {
          transpose_block<Lanes>(dy + item * kLane * size + first + p, size, 16, std::min<int64_t>(16, pixels - p),
                                 [&](int64_t i) AMP_INLINE { return grad + (p + i) * kLane; });
        }
        add<Lanes>(pixels, base, image, grad, to);
      });
    }
  }
}

void DepthwiseWeightGradient::store(int64_t g) const {
  for (int64_t t = 0; t < s.taps(); ++t) {
    for (int64_t lane = 0; lane < kLane; ++lane) {
      float sum = 0;
      for (int64_t piece = 0; piece < pieces; ++piece)
        sum += sums[((g * pieces + piece) * padded_taps() + t) * kLane + lane];
      dw[(g * kLane + lane) * s.taps() + t] = sum;
    }
  }
}

}  // namespace

bool conv_depthwise_fits(const ConvShape& s) {
  return s.n > 0 && s.c == 1 && s.m == 1 && s.groups > 1 && s.groups % kLane == 0;
}

Kernel conv_depthwise(const ConvShape& s, Carver& carve, const float* x, const float* w, const float* bias, float* y) {
  Depthwise c{};
  c.plan = forward_channels(sixteen(s));
  for (size_t i = 0; i < 3; ++i) c.out[i] = s.window[i].out;
  c.source = x, c.w = w, c.bias = bias, c.target = y;
  return correlate_depthwise(std::move(c), s, carve);
}

Kernel conv_depthwise_grad_x(const ConvShape& s, Carver& carve, const float* dy, const float* w, float* dx) {
  Depthwise c{};
  c.plan = grad_x_channels(sixteen(s));
  for (size_t i = 0; i < 3; ++i) c.out[i] = s.window[i].in;
  c.source = dy, c.w = w, c.bias = nullptr, c.target = dx;
  return correlate_depthwise(std::move(c), s, carve);
}

Kernel conv_depthwise_grad_w(const ConvShape& s, Carver& carve, const float* x, const float* dy, float* dw) {
  DepthwiseWeightGradient g{};
  g.plan = forward_channels(sixteen(s));
  g.s = s;
  g.groups = s.groups / kLane;
  g.pieces = std::clamp<int64_t>(16 / g.groups, 1, s.n);
  g.offset = g.plan.parts[0].offset;
  g.offset.resize(static_cast<size_t>(round_up(s.taps(), kTileTaps)), 0);
  g.x = x, g.dy = dy, g.dw = dw;
  g.packed = carve.take<float>(g.groups * g.pieces * g.image_size());
  g.grads = carve.take<float>(g.groups * g.pieces * kPixelsAtOnce * kLane);
  g.sums = carve.take<float>(g.groups * g.pieces * g.padded_taps() * kLane);
  return [p = std::make_shared<const DepthwiseWeightGradient>(std::move(g))] {
    parallel_for(p->groups * p->pieces, [&](int64_t i) { p->run_shard(i / p->pieces, i % p->pieces); });
    parallel_for(p->groups, [&](int64_t i) { p->store(i); });
  };
}

}  // namespace amp
