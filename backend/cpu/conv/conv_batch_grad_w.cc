// Gradient to the weight of conv_batch.h: for each tap a product of x and dy, summed over the pixels that the tap
// reaches and over images. Images are the vector lanes and are added at the end.

#include <memory>

#include "backend/cpu/conv/conv_batch.h"
#include "backend/cpu/conv/conv_batch_lanes.h"
#include "backend/cpu/conv/conv_tiles.h"

namespace amp {

namespace {

using namespace conv_tiles;
using conv_batch_lanes::Lanes, conv_batch_lanes::lanes_of;

struct BatchWeightGradient {
  ConvShape s;
  Lanes x, dy;
  const float *x_from, *dy_from;
  float *dw, *packed_x, *packed_dy;

  void run_tap(int64_t g, int64_t tap) const;
  template <int Level, int Rows, int Columns>
  AMP_INLINE inline void tile(const float* x_of, const float* dy_of, const std::array<int64_t, 3>& tap,
                              float* out) const;
  template <int Level, int Rows>
  AMP_INLINE inline void panel(const float* x_of, const float* dy_of, const std::array<int64_t, 3>& tap,
                               float* out) const;
};

// out[m * C * taps + c * taps] = sum over pixels and images of dy[m] * x[c], for Rows values of m and Columns of c.
template <int Level, int Rows, int Columns>
AMP_INLINE inline void BatchWeightGradient::tile(const float* x_of, const float* dy_of,
                                                 const std::array<int64_t, 3>& tap, float* out) const {
  using V = typename cpu::VectorOf<Level>::type;
  const auto& [d, h, w] = s.window;
  V acc[Rows][Columns];
  for (int m = 0; m < Rows; ++m) {
    for (int c = 0; c < Columns; ++c) acc[m][c] = V{};
  }
  for (int64_t od = d.begin(tap[0]); od < d.end(tap[0]); ++od) {
    for (int64_t oh = h.begin(tap[1]); oh < h.end(tap[1]); ++oh) {
      for (int64_t ow = w.begin(tap[2]); ow < w.end(tap[2]); ++ow) {
        const int64_t o = (od * h.out + oh) * w.out + ow,
                      i = (d.at(od, tap[0]) * h.in + h.at(oh, tap[1])) * w.in + w.at(ow, tap[2]);
        const float *grad = dy_of + o * dy.pixel_step(), *in = x_of + i * x.pixel_step();
        for (int64_t l = 0; l < x.lanes; l += Level) {
          V u[Rows];
          for (int m = 0; m < Rows; ++m) u[m] = *reinterpret_cast<const V*>(grad + m * x.lanes + l);
          for (int c = 0; c < Columns; ++c) {
            const V v = *reinterpret_cast<const V*>(in + c * x.lanes + l);
            for (int m = 0; m < Rows; ++m) acc[m][c] += u[m] * v;
          }
        }
      }
    }
  }
  for (int m = 0; m < Rows; ++m) {
    for (int c = 0; c < Columns; ++c) {
      float lane[Level];
      *reinterpret_cast<V*>(lane) = acc[m][c];
      for (int n = Level / 2; n > 0; n /= 2) {
        for (int l = 0; l < n; ++l) lane[l] += lane[l + n];
      }
      out[(m * s.c + c) * s.taps()] = lane[0];
    }
  }
}

template <int Level, int Rows>
AMP_INLINE inline void BatchWeightGradient::panel(const float* x_of, const float* dy_of,
                                                  const std::array<int64_t, 3>& tap, float* out) const {
  for (int64_t c = 0; c < s.c;) {
    const int64_t n = panel_rows(s.c - c);
    const float* in = x_of + c * x.lanes;
    float* to = out + c * s.taps();
    if (n == 6)
      tile<Level, Rows, 6>(in, dy_of, tap, to);
    else if (n == 4)
      tile<Level, Rows, 4>(in, dy_of, tap, to);
    else if (n == 2)
      tile<Level, Rows, 2>(in, dy_of, tap, to);
    else
      tile<Level, Rows, 1>(in, dy_of, tap, to);
    c += n;
  }
}

void BatchWeightGradient::run_tap(int64_t g, int64_t tap) const {
  const int64_t area = s.window[1].kernel * s.window[2].kernel;
  const std::array<int64_t, 3> at{tap / area, tap / s.window[2].kernel % s.window[1].kernel, tap % s.window[2].kernel};
  const float *x_of = packed_x + g * x.of_group(), *dy_of = packed_dy + g * dy.of_group();
  at_level([&]<int Level>() AMP_INLINE {
    constexpr int kRows = Level == 16 ? 4 : 2;  // a tile of kRows x 6 sums fills the vector registers
    int64_t m = 0;
    const auto out = [&] { return dw + ((g * s.m + m) * s.c) * s.taps() + tap; };
    for (; m + kRows <= s.m; m += kRows) panel<Level, kRows>(x_of, dy_of + m * x.lanes, at, out());
    for (; m < s.m; ++m) panel<Level, 1>(x_of, dy_of + m * x.lanes, at, out());
  });
}

}  // namespace

Kernel conv_batch_grad_w(const ConvShape& s, Carver& carve, const float* x, const float* dy, float* dw) {
  BatchWeightGradient g{};
  g.s = s;
  g.x = {s.n, s.groups, s.c, s.in_size(), lanes_of(s)};
  g.dy = {s.n, s.groups, s.m, s.out_size(), lanes_of(s)};
  g.x_from = x, g.dy_from = dy, g.dw = dw;
  g.packed_x = carve.take<float>(g.x.size());
  g.packed_dy = carve.take<float>(g.dy.size());
  return [p = std::make_shared<const BatchWeightGradient>(std::move(g))] {
    p->x.pack(p->x_from, p->packed_x);
    p->dy.pack(p->dy_from, p->packed_dy);
    parallel_for(p->s.groups * p->s.taps(), [&](int64_t i) { p->run_tap(i / p->s.taps(), i % p->s.taps()); });
  };
}

}  // namespace amp
