// The geometry of RoiAlign (ops/roi_align.cc), shared by the kernels for CPU and GPU.
#pragma once

#include <cmath>

#include "backend/rounded.h"
#include "graph/attrs.h"

namespace amp::roi_align {

struct Shape {
  int64_t regions, channels, h, w, out_h, out_w, sampling;
  double scale;
  bool half, max;
  Shape(const Dims& x, const Dims& rois, const Attrs& a)
      : regions(rois[0]),
        channels(x[1]),
        h(x[2]),
        w(x[3]),
        out_h(a.i("height", 1)),
        out_w(a.i("width", 1)),
        sampling(a.i("sampling", 0)),
        scale(a.f("scale", 1)),
        half(a.i("half", 1) != 0),
        max(a.i("max", 0) != 0) {}
};

// The bins of one region, computed in type T.
template <class T>
struct Bins {
  T y0, x0, bin_h, bin_w;
  int64_t grid_h, grid_w;
  HD Bins(const Shape& s, const T* roi) {
    const T k = static_cast<T>(s.scale), offset = s.half ? T(0.5) : T(0);
    x0 = rounded_product(roi[0], k) - offset;
    y0 = rounded_product(roi[1], k) - offset;
    T wide = rounded_product(roi[2], k) - offset - x0, high = rounded_product(roi[3], k) - offset - y0;
    if (!s.half) {
      wide = wide > T(1) ? wide : T(1);
      high = high > T(1) ? high : T(1);
    }
    bin_h = high / static_cast<T>(s.out_h);
    bin_w = wide / static_cast<T>(s.out_w);
    grid_h = samples(s.sampling, bin_h, s.h);
    grid_w = samples(s.sampling, bin_w, s.w);
  }
  // Returns the number of samples per side. It is bounded, because a bin may be NaN or much larger than the image.
  HD static int64_t samples(int64_t sampling, T bin, int64_t extent) {
    if (sampling > 0) return sampling;
    const T n = std::ceil(bin), most = static_cast<T>(4 * extent + 4);
    return n >= T(1) ? static_cast<int64_t>(n < most ? n : most) : 0;
  }
  // Return the coordinate of sample i of bin p along an axis.
  HD T y(int64_t p, int64_t i) const { return place(y0, bin_h, grid_h, p, i); }
  HD T x(int64_t p, int64_t i) const { return place(x0, bin_w, grid_w, p, i); }
  // Returns the number of samples, by which a bin's sum is divided.
  HD T count() const { return static_cast<T>(grid_h * grid_w > 1 ? grid_h * grid_w : 1); }

 private:
  HD static T place(T start, T bin, int64_t grid, int64_t p, int64_t i) {
    return start + rounded_product(static_cast<T>(p), bin) +
           rounded_product(static_cast<T>(i) + T(0.5), bin) / static_cast<T>(grid);
  }
};

// A coordinate between two neighboring elements of an axis of n elements. upper: weight of the upper neighbor.
// inside: false if the coordinate is outside of the axis; the sample then counts as zero.
template <class T>
struct Between {
  int64_t low = 0, high = 0;
  T upper = 0;
  bool inside = false;
  HD Between(T v, int64_t n) {
    if (!(v >= T(-1) && v <= static_cast<T>(n))) return;
    inside = true;
    v = v > T(0) ? v : T(0);
    low = static_cast<int64_t>(v);
    if (low >= n - 1) {
      low = high = n - 1;
    } else {
      high = low + 1;
      upper = v - static_cast<T>(low);
    }
  }
  // Returns the weight that element i of the axis has in a sample at this coordinate.
  HD T weight(int64_t i) const {
    if (!inside) return T(0);
    return (i == low ? T(1) - upper : T(0)) + (i == high ? upper : T(0));
  }
};

template <class T>
struct Corners {
  int64_t at[4] = {};
  T weight[4] = {};
  HD Corners(const Shape& s, T y, T x) {
    const Between<T> v(y, s.h), u(x, s.w);
    if (!v.inside || !u.inside) return;
    const T hy = T(1) - v.upper, hx = T(1) - u.upper;
    at[0] = v.low * s.w + u.low;
    at[1] = v.low * s.w + u.high;
    at[2] = v.high * s.w + u.low;
    at[3] = v.high * s.w + u.high;
    weight[0] = hy * hx;
    weight[1] = hy * u.upper;
    weight[2] = v.upper * hx;
    weight[3] = v.upper * u.upper;
  }
};

// Calls f(corners) for every sample of a bin; corners: the four neighbors of the sample.
template <class T, class F>
HD void samples_of(const Shape& s, const Bins<T>& b, int64_t ph, int64_t pw, F f) {
  for (int64_t iy = 0; iy < b.grid_h; ++iy) {
    for (int64_t ix = 0; ix < b.grid_w; ++ix) f(Corners<T>(s, b.y(ph, iy), b.x(pw, ix)));
  }
}

// Mode max. A corner's product is its weight times its value plane(position). Returns the largest product over all
// samples of a bin. at, weight: receive the position and the weight of the corner with the largest product.
template <class T, class Plane>
HD T largest(const Shape& s, const Bins<T>& b, Plane plane, int64_t ph, int64_t pw, int64_t& at, T& weight) {
  T best = T(0);
  bool any = false;
  samples_of(s, b, ph, pw, [&](const Corners<T>& c) {
    for (int k = 0; k < 4; ++k) {
      const T v = c.weight[k] * plane(c.at[k]);
      if (any && !(v > best) && v == v) continue;
      any = true;
      best = v;
      at = c.at[k];
      weight = c.weight[k];
    }
  });
  return best;
}

}  // namespace amp::roi_align
