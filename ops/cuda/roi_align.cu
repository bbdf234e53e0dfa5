// The kernels of RoiAlign and RoiAlignGrad (ops/roi_align.cc). For the gradient in mode avg, each element of dx has one
// thread, which visits the regions of the element's image in order. In mode max, the gradient of each bin goes to one
// element; the gradients are sorted by element and summed (scatter_rows.cuh). Neither mode needs atomics, so the result
// is the same in every run.
#include "ops/cuda/scatter_rows.cuh"
#include "ops/roi_align.h"

namespace amp::cuda {
namespace {

using namespace roi_align;

DEV Bins<float> bins_of(const Shape& s, const Ref& rois, int64_t region) {
  float roi[4];
  for (int k = 0; k < 4; ++k) roi[k] = load<float>(rois, region * 4 + k);
  return Bins<float>(s, roi);
}

// A plane (one channel of an image) of x. The operator returns element i of the plane.
struct Plane {
  Ref x;
  int64_t at;
  DEV float operator()(int64_t i) const { return load<float>(x, at + i); }
};

// Computes y, with one thread per channel and bin.
struct Forward {
  Shape s;
  Ref x, rois, images, y;
  int64_t batch;
  DEV void operator()(int64_t i) const {
    const int64_t pw = i % s.out_w, ph = i / s.out_w % s.out_h, rc = i / (s.out_w * s.out_h), region = rc / s.channels;
    int64_t image = load<int64_t>(images, region);
    image = image < 0 ? 0 : image >= batch ? batch - 1 : image;
    const Plane plane{x, (image * s.channels + rc % s.channels) * s.h * s.w};
    const Bins<float> b = bins_of(s, rois, region);
    if (s.max) {
      int64_t at = 0;
      float weight = 0;
      store(y, i, largest(s, b, plane, ph, pw, at, weight));
      return;
    }
    float sum = 0;
    samples_of(s, b, ph, pw, [&](const Corners<float>& c) {
      for (int k = 0; k < 4; ++k) sum += c.weight[k] * plane(c.at[k]);
    });
    store(y, i, sum / b.count());
  }
};

// Computes dx in mode avg. The thread of an element visits the regions of the element's image in order, and sums over
// the samples that read the element.
struct Mean {
  Shape s;
  Ref dy, rois, images, dx;
  DEV void operator()(int64_t i) const {
    const int64_t u = i % s.w, v = i / s.w % s.h, plane = i / (s.w * s.h), image = plane / s.channels,
                  channel = plane % s.channels;
    float sum = 0;
    for (int64_t r = 0; r < s.regions; ++r) {
      if (load<int64_t>(images, r) != image) continue;
      const Bins<float> b = bins_of(s, rois, r);
      if (away(b.y0, b.bin_h, s.out_h, v) || away(b.x0, b.bin_w, s.out_w, u)) continue;
      const int64_t up = (r * s.channels + channel) * s.out_h * s.out_w;
      float part = 0;
      for (int64_t ph = 0; ph < s.out_h; ++ph) {
        for (int64_t iy = 0; iy < b.grid_h; ++iy) {
          const float wy = Between<float>(b.y(ph, iy), s.h).weight(v);
          if (wy == 0) continue;
          float line = 0;
          for (int64_t pw = 0; pw < s.out_w; ++pw) {
            float share = 0;
            for (int64_t ix = 0; ix < b.grid_w; ++ix) share += Between<float>(b.x(pw, ix), s.w).weight(u);
            if (share != 0) line += share * load<float>(dy, up + ph * s.out_w + pw);
          }
          part += wy * line;
        }
      }
      sum += part / b.count();
    }
    store(dx, i, sum);
  }
  // Returns whether all samples along an axis are more than two elements away from element i. The margin of two is
  // needed for samples just outside the axis, which are moved to its first or last element.
  DEV static bool away(float start, float bin, int64_t bins, int64_t i) {
    const float other = start + bin * static_cast<float>(bins), low = start < other ? start : other,
                high = start < other ? other : start;
    const float at = static_cast<float>(i);
    return low > at + 2 || (high < at - 2);
  }
};

// For mode max, computes the gradient of each bin and the element that receives it. If the region's image does not
// exist, the element is one past the last.
struct Chosen {
  Shape s;
  Ref dy, x, rois, images;
  float* share;
  uint32_t* place;
  int64_t batch;
  DEV void operator()(int64_t i) const {
    const int64_t pw = i % s.out_w, ph = i / s.out_w % s.out_h, rc = i / (s.out_w * s.out_h), region = rc / s.channels;
    const int64_t image = load<int64_t>(images, region), plane = s.h * s.w;
    share[i] = 0;
    place[i] = static_cast<uint32_t>(batch * s.channels * plane);
    if (image < 0 || image >= batch) return;
    const int64_t base = (image * s.channels + rc % s.channels) * plane;
    int64_t at = 0;
    float weight = 0;
    largest(s, bins_of(s, rois, region), Plane{x, base}, ph, pw, at, weight);
    share[i] = weight * load<float>(dy, i);
    place[i] = static_cast<uint32_t>(base + at);
  }
};
struct ChosenPlace {
  const uint32_t* place;
  DEV int64_t operator()(int64_t i) const { return place[i]; }
};

void refuse_fp64(const KernelArgs& a) {
  for (const Tensor& t : a.in) {
    if (t.dtype == DType::f64) no_fp64(a);
  }
}

Kernel forward(const KernelArgs& a) {
  refuse_fp64(a);
  const Tensor &x = a.in[0], &y = a.out[0];
  if (y.numel() == 0) return [] {};
  if (x.numel() == 0) fail(Exit::data, "E_DATA_INDEX", cat("RoiAlign: regions of images ", to_string(x.dims)));
  const Forward body{Shape(x.dims, a.in[1].dims, a.attrs()), x, a.in[1], a.in[2], y, x.dims[0]};
  return [&d = device_of(a), body, n = y.numel()] { for_each(d, n, body); };
}

Kernel backward(const KernelArgs& a, Carver& carver) {
  refuse_fp64(a);
  const Tensor &dy = a.in[0], &x = a.in[1], &dx = a.out[0];
  const Shape s(x.dims, a.in[2].dims, a.attrs());
  if (!s.max) {
    if (carver.measuring()) return {};
    return [&d = device_of(a), body = Mean{s, dy, a.in[2], a.in[3], dx}, n = dx.numel()] { for_each(d, n, body); };
  }
  const int64_t k = dy.numel();
  float* const share = carver.take<float>(k);
  uint32_t* const place = carver.take<uint32_t>(k);
  const RowSums sums{Ref(Tensor{share, DType::f32, {k}}), dx, 1, k, dx.numel(), 1};
  const Kernel add = sum_rows(a, carver, sums, ChosenPlace{place});
  if (carver.measuring()) return {};
  if (dx.numel() == 0) return [] {};
  return [&d = device_of(a), body = Chosen{s, dy, x, a.in[2], a.in[3], share, place, x.dims[0]}, add, k] {
    for_each(d, k, body);
    add();
  };
}

const RegisterKernel kernels[] = {
    {DeviceKind::cuda, "RoiAlign", forward},
    {DeviceKind::cuda, "RoiAlignGrad", with_workspace<backward>, measure_workspace<backward>}};

}  // namespace
}  // namespace amp::cuda
