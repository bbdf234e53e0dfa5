// Depthwise convolution vectorized over pixels (conv_depthwise_planes.h): forward, gradient to x, gradient to the
// weight. A plane is packed with padding and processed as one long row; the gaps between rows are dropped when
// results are copied.

#include "backend/cpu/conv/conv_depthwise_planes.h"

#include <memory>

#include "backend/cpu/conv/conv_direct.h"
#include "backend/cpu/conv/conv_tiles.h"
#include "backend/cpu/lanes.h"
#include "backend/parallel.h"

namespace amp {

namespace {

using namespace conv_tiles;

constexpr int64_t kWide = 8;     // lanes per vector; a CPU can load two unaligned vectors of 8 floats per cycle
constexpr int64_t kVectors = 8;  // output vectors at a time; independent sums hide the latency of additions
constexpr int64_t kTapsAtOnce = 10;
// Number of terms that are summed in fp32 before their sum is added to a total in fp64.
constexpr int64_t kPositions = 4096;
constexpr int64_t kAtOnce = kWide * kVectors;
using Vector = VectorOf<kWide>::type;
using Sum = VectorOf<kWide>::local;

// Copies n floats by vectors. The last vector overlaps the one before it.
AMP_INLINE inline void copy_row(const float* from, int64_t n, float* to) {
  if (n < kWide) {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i];
    return;
  }
  for (int64_t i = 0; i < n; i += kWide) {
    const int64_t at = std::min(i, n - kWide);
    *reinterpret_cast<Vector*>(to + at) = *reinterpret_cast<const Vector*>(from + at);
  }
}

// Splits a row into even and odd elements. If `even` or `odd` is null, these elements are dropped.
AMP_INLINE inline void split_row(const float* from, int64_t n, float* even, float* odd) {
  constexpr auto lanes = std::make_integer_sequence<int, kWide>();
  float trash[kWide];
  int64_t i = 0;
  for (; i + 2 * kWide <= n; i += 2 * kWide) {
    const Vector a = *reinterpret_cast<const Vector*>(from + i), b = *reinterpret_cast<const Vector*>(from + i + kWide);
    Vector parts[2];
    cpu::unzip<kWide>(a, b, parts[0], parts[1], lanes);
    *reinterpret_cast<Vector*>(even ? even + i / 2 : trash) = parts[0];
    *reinterpret_cast<Vector*>(odd ? odd + i / 2 : trash) = parts[1];
  }
  for (; i < n; ++i) {
    if (float* const to = i % 2 == 0 ? even : odd) to[i / 2] = from[i];
  }
}

// Packs one channel of one image into planes whose borders are zero already.
class PlanePacker {
 public:
  explicit PlanePacker(const ShiftPlan& plan) : plan_(plan) {
    for (size_t q = 0; q < plan.planes.size(); ++q) {
      const auto& phase = plan.planes[q];
      Rows* rows = nullptr;
      for (Rows& r : rows_) rows = r.d == phase[0] && r.h == phase[1] ? &r : rows;
      if (!rows) rows = &rows_.emplace_back(Rows{phase[0], phase[1], std::vector<int64_t>(plan.axis[2].phases, kNone)});
      rows->to[static_cast<size_t>(phase[2])] = static_cast<int64_t>(q) * plan.plane_size();
    }
  }
  AMP_INLINE void pack(const float* source, float* image) const {
    const auto& [d, h, w] = plan_.axis;
    for (const Rows& r : rows_) {
      for (int64_t pd = 0; pd < d.length; ++pd) {
        const int64_t id = pd * d.phases + r.d - d.origin;
        if (id < 0 || id >= d.source) continue;
        for (int64_t ph = 0; ph < h.length; ++ph) {
          const int64_t ih = ph * h.phases + r.h - h.origin;
          if (ih < 0 || ih >= h.source) continue;
          pack_row(r, source + (id * h.source + ih) * w.source, image + (pd * h.length + ph) * w.length);
        }
      }
    }
  }

 private:
  static constexpr int64_t kNone = -1;
  // The planes that hold phase d of the depth and phase h of the height.
  struct Rows {
    int64_t d, h;
    std::vector<int64_t> to;  // indexed by the phase of the width: start of the phase's plane, or kNone
  };
  // Packs a row: source element i is stored at position p of phase s, where p * phases + s = i + origin.
  AMP_INLINE void pack_row(const Rows& r, const float* source, float* row) const {
    const ShiftPlan::Axis& w = plan_.axis[2];
    const auto place = [&](int64_t i) AMP_INLINE {
      const int64_t to = r.to[static_cast<size_t>((i + w.origin) % w.phases)];
      return to == kNone ? nullptr : row + to + (i + w.origin) / w.phases;
    };
    // Elements after the last position that is read are dropped.
    const int64_t n = std::min(w.source, w.length * w.phases - w.origin);
    if (n <= 0) return;
    if (w.phases == 1) {
      copy_row(source, n, place(0));
    } else if (w.phases == 2) {
      split_row(source, n, place(0), place(1));
    } else {
      for (int64_t i = 0; i < n; ++i) {
        if (float* const to = place(i)) *to = source[i];
      }
    }
  }
  const ShiftPlan& plan_;
  std::vector<Rows> rows_;
};

int64_t shards_of(int64_t planes) { return std::min<int64_t>(planes, 64); }
int64_t padded(int64_t n) { return round_up(n + kAtOnce + kSlack, kLane); }

// ---- forward, and the gradient to x

struct Planes {
  ShiftPlan plan;
  int64_t planes, groups, taps, shards;
  std::array<int64_t, 3> out;
  const float *source, *w, *bias;
  float *target, *packed, *sums;

  int64_t source_size() const { return plan.axis[0].source * plan.axis[1].source * plan.axis[2].source; }
  int64_t out_size() const { return out[0] * out[1] * out[2]; }
  int64_t packed_size() const { return padded(plan.channel_size()); }
  int64_t sums_size() const { return padded(plan.axis[1].length * plan.axis[2].length); }
  void run_plane(const PlanePacker& packer, int64_t plane, float* image, float* row) const;
  AMP_INLINE inline void correlate(const ShiftPlan::Part& part, const float* image, const float* weights, float start,
                                   int64_t n, float* to) const;
  AMP_INLINE inline void place(const ShiftPlan::Part& part, int64_t depth, const float* row, float* to) const;
};

// to[i] = start + sum over taps of weight * image[offset + i], for i < n rounded up to a multiple of kAtOnce.
AMP_INLINE inline void Planes::correlate(const ShiftPlan::Part& part, const float* image, const float* weights,
                                         float start, int64_t n, float* to) const {
  for (int64_t i = 0; i < n; i += kAtOnce) {
    Sum acc[kVectors];
    for (int64_t v = 0; v < kVectors; ++v) acc[v] = Sum{} + start;
    for (size_t t = 0; t < part.tap.size(); ++t) {
      const float weight = weights[part.tap[t]];
      const float* at = image + part.offset[t] + i;
      for (int64_t v = 0; v < kVectors; ++v) acc[v] += weight * *reinterpret_cast<const Vector*>(at + v * kWide);
    }
    for (int64_t v = 0; v < kVectors; ++v) *reinterpret_cast<Vector*>(to + i + v * kWide) = acc[v];
  }
}

// Copies the rows of one depth index to the output, without the gaps between the rows.
AMP_INLINE inline void Planes::place(const ShiftPlan::Part& part, int64_t depth, const float* row, float* to) const {
  float* plane = to + (part.start[0] + depth * part.step[0]) * out[1] * out[2];
  for (int64_t y = 0; y < part.count[1]; ++y, row += plan.axis[2].length) {
    float* at = plane + (part.start[1] + y * part.step[1]) * out[2] + part.start[2];
    if (part.step[2] == 1) {
      copy_row(row, part.count[2], at);
    } else if (part.step[2] == 2) {
      for (int64_t x = 0; x < part.count[2]; ++x) at[2 * x] = row[x];
    } else {
      for (int64_t x = 0; x < part.count[2]; ++x) at[x * part.step[2]] = row[x];
    }
  }
}

void Planes::run_plane(const PlanePacker& packer, int64_t plane, float* image, float* row) const {
  const int64_t g = plane % groups, depth_size = plan.axis[1].length * plan.axis[2].length;
  float* const to = target + plane * out_size();
  const float start = bias ? bias[g] : 0;
  simd([&]() AMP_INLINE {
    packer.pack(source + plane * source_size(), image);
    for (const ShiftPlan::Part& part : plan.parts) {
      for (int64_t z = 0; z < part.count[0]; ++z) {
        correlate(part, image + z * depth_size, w + g * taps, start, plan.flat(part), row);
        place(part, z, row, to);
      }
    }
  });
}

// Returns the kernel of forward or the gradient to x. extent: selects the extents of the planes that are written.
Kernel correlate_planes(ShiftPlan plan, const ConvShape& s, int64_t WindowAxis::*extent, Carver& carve,
                        const float* source, const float* w, const float* bias, float* target) {
  Planes c{};
  c.plan = std::move(plan);
  for (size_t i = 0; i < 3; ++i) c.out[i] = s.window[i].*extent;
  c.source = source, c.w = w, c.bias = bias, c.target = target;
  c.groups = s.groups, c.planes = s.n * s.groups, c.taps = s.taps(), c.shards = shards_of(c.planes);
  c.packed = carve.take<float>(c.shards * c.packed_size());
  c.sums = carve.take<float>(c.shards * c.sums_size());
  return [p = std::make_shared<const Planes>(std::move(c))] {
    const PlanePacker packer(p->plan);
    parallel_for(p->shards, [&](int64_t shard) {
      float *image = p->packed + shard * p->packed_size(), *row = p->sums + shard * p->sums_size();
      // Zeros for the borders, and for elements that are read past the planes.
      std::fill_n(image, p->packed_size(), 0.0f);
      for (int64_t i = p->planes * shard / p->shards; i < p->planes * (shard + 1) / p->shards; ++i)
        p->run_plane(packer, i, image, row);
    });
  };
}

// ---- the gradient to the weight

struct PlanesWeightGradient {
  ShiftPlan plan;
  ConvShape s;
  int64_t shards;
  std::vector<int32_t> offset;  // offset of the element that each tap reads, padded to whole tiles
  const float *x, *dy;
  float *dw, *packed, *rows;

  int64_t depth_size() const { return plan.axis[1].length * plan.axis[2].length; }
  int64_t packed_size() const { return padded(plan.channel_size()); }
  int64_t row_size() const { return padded(depth_size()); }
  void run_groups(int64_t begin, int64_t end, float* image, float* row) const;
  AMP_INLINE inline void spread(const float* from, float* row) const;
  AMP_INLINE inline void add(const float* image, const float* row, double* sum) const;
};

// Copies one depth of dy, so that its rows have the pitch of the packed planes. The gaps between rows are zero already.
AMP_INLINE inline void PlanesWeightGradient::spread(const float* from, float* row) const {
  const int64_t height = s.window[1].out, width = s.window[2].out, pitch = plan.axis[2].length;
  for (int64_t y = 0; y < height; ++y, row += pitch, from += width) {
    copy_row(from, width, row);
  }
}

// sum[tap] += sum over positions of row * image[offset of the tap + position]. row: dy at the row pitch of the planes.
AMP_INLINE inline void PlanesWeightGradient::add(const float* image, const float* row, double* sum) const {
  const int64_t n = round_up(plan.flat(plan.parts[0]), kWide);
  for (int64_t first = 0; first < n; first += kPositions) {
    for (size_t t = 0; t < offset.size(); t += kTapsAtOnce) {
      Sum acc[kTapsAtOnce];
      const float* at[kTapsAtOnce];
      for (size_t i = 0; i < kTapsAtOnce; ++i) {
        acc[i] = Sum{};
        at[i] = image + offset[t + i];
      }
      for (int64_t p = first; p < std::min(n, first + kPositions); p += kWide) {
        const Vector v = *reinterpret_cast<const Vector*>(row + p);
        for (size_t i = 0; i < kTapsAtOnce; ++i) acc[i] += v * *reinterpret_cast<const Vector*>(at[i] + p);
      }
      for (size_t i = 0; i < kTapsAtOnce; ++i) {
        float part = 0;
        for (int64_t lane = 0; lane < kWide; ++lane) part += acc[i][lane];
        sum[t + i] += static_cast<double>(part);
      }
    }
  }
}

// Computes dw of groups [begin, end). Processes planes in the order in which they are stored.
void PlanesWeightGradient::run_groups(int64_t begin, int64_t end, float* image, float* row) const {
  const PlanePacker packer(plan);
  const auto padded_taps = static_cast<int64_t>(offset.size());
  std::vector<double> sums(static_cast<size_t>((end - begin) * padded_taps), 0.0);
  simd([&]() AMP_INLINE {
    for (int64_t n = 0; n < s.n; ++n) {
      for (int64_t g = begin; g < end; ++g) {
        const int64_t plane = n * s.groups + g;
        packer.pack(x + plane * s.in_size(), image);
        for (int64_t z = 0; z < s.window[0].out; ++z) {
          spread(dy + plane * s.out_size() + z * s.window[1].out * s.window[2].out, row);
          add(image + z * depth_size(), row, sums.data() + (g - begin) * padded_taps);
        }
      }
    }
  });
  for (int64_t g = begin; g < end; ++g) {
    for (int64_t t = 0; t < s.taps(); ++t)
      dw[g * s.taps() + t] = static_cast<float>(sums[static_cast<size_t>((g - begin) * padded_taps + t)]);
  }
}

}  // namespace

bool conv_depthwise_planes_fits(const ConvShape& s) {
  return s.n > 0 && s.c == 1 && s.m == 1 && s.groups > 1 && s.out_size() > 0 && conv_direct_fits(s) &&
         std::all_of(s.window.begin(), s.window.end(), [](const WindowAxis& a) { return a.pad >= 0; });
}

bool conv_depthwise_planes_gain(const ConvShape& s) {
  constexpr int64_t kLeast = 300;  // minimum number of pixels of a plane
  return conv_depthwise_planes_fits(s) && s.taps() <= kTapsAtOnce && std::min(s.in_size(), 4 * s.out_size()) >= kLeast;
}

Kernel conv_depthwise_planes(const ConvShape& s, Carver& carve, const float* x, const float* w, const float* bias,
                             float* y) {
  return correlate_planes(forward_plan(s.window), s, &WindowAxis::out, carve, x, w, bias, y);
}

Kernel conv_depthwise_planes_grad_x(const ConvShape& s, Carver& carve, const float* dy, const float* w, float* dx) {
  return correlate_planes(grad_x_plan(s.window), s, &WindowAxis::in, carve, dy, w, nullptr, dx);
}

Kernel conv_depthwise_planes_grad_w(const ConvShape& s, Carver& carve, const float* x, const float* dy, float* dw) {
  PlanesWeightGradient g{};
  g.plan = forward_plan(s.window);
  g.s = s;
  g.shards = std::min<int64_t>(s.groups, 16);
  g.offset = g.plan.parts[0].offset;
  g.offset.resize(static_cast<size_t>(round_up(s.taps(), kTapsAtOnce)), 0);
  g.x = x, g.dy = dy, g.dw = dw;
  g.packed = carve.take<float>(g.shards * g.packed_size());
  g.rows = carve.take<float>(g.shards * g.row_size());
  return [p = std::make_shared<const PlanesWeightGradient>(std::move(g))] {
    parallel_for(p->shards, [&](int64_t shard) {
      float *image = p->packed + shard * p->packed_size(), *row = p->rows + shard * p->row_size();
      std::fill_n(image, p->packed_size(), 0.0f);
      std::fill_n(row, p->row_size(), 0.0f);
      p->run_groups(p->s.groups * shard / p->shards, p->s.groups * (shard + 1) / p->shards, image, row);
    });
  };
}

}  // namespace amp
