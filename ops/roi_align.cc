// RoiAlign (ONNX 10, 16, 22): divides each region (x1, y1, x2, y2) of an image into (height, width) bins. A bin's value
// is the mean of bilinear samples; in mode max, as ONNX defines it, it is the largest weighted corner of all samples.
// Core operators:
//
//   RoiAlign(x (N, C, H, W), rois (R, 4), image (R) int64) -> (R, C, height, width)
//   RoiAlignGrad(dy, x, rois, image) -> dx
//
// Regions and image numbers have no gradient, as in torchvision. Attributes: height, width, sampling, scale, half, max.
// sampling: samples per side; 0 means ceil(bin size). With half, coordinates are shifted by -0.5, and regions may be
// smaller than 1.
#include "ops/roi_align.h"

#include "backend/rows.h"
#include "ops/elementwise_op.h"

namespace amp {
namespace {

using namespace roi_align;

int64_t image_of(const Tensor& images, int64_t region, int64_t batch) {
  const int64_t n = static_cast<const int64_t*>(images.data)[region];
  if (n < 0 || n >= batch)
    fail(Exit::data, "E_DATA_INDEX", cat("RoiAlign: region ", region, " is of image ", n, " of ", batch));
  return n;
}

template <class T>
Kernel typed_forward(const KernelArgs& a) {
  const Tensor x = a.in[0], rois = a.in[1], images = a.in[2], y = a.out[0];
  const Shape s(x.dims, rois.dims, a.attrs());
  const int64_t batch = x.dims[0], bins = s.out_h * s.out_w;
  return [=] {
    parallel_ranges(s.regions * s.channels, 4096 / (bins + 1) + 1, [&](int64_t begin, int64_t end) {
      T* const scratch = thread_scratch<T>(s.h * s.w, 0);
      T* const line = thread_scratch<T>(bins, 1);
      T roi[4];
      for (int64_t i = begin; i < end; ++i) {
        const int64_t r = i / s.channels, c = i % s.channels;
        const Bins<T> b(s, load_row<T>(rois, r, 4, roi));
        const T* const plane = load_row<T>(x, image_of(images, r, batch) * s.channels + c, s.h * s.w, scratch);
        const auto value = [plane](int64_t k) { return plane[k]; };
        T* const out = row_buffer<T>(y, i, bins, line);
        for (int64_t p = 0; p < bins; ++p) {
          int64_t at;
          T sum = T(0), weight;
          if (s.max) {
            out[p] = largest(s, b, value, p / s.out_w, p % s.out_w, at, weight);
            continue;
          }
          samples_of(s, b, p / s.out_w, p % s.out_w, [&](const Corners<T>& k) {
            sum += k.weight[0] * plane[k.at[0]] + k.weight[1] * plane[k.at[1]] + k.weight[2] * plane[k.at[2]] +
                   k.weight[3] * plane[k.at[3]];
          });
          out[p] = sum / b.count();
        }
        store_row<T>(out, y, i, bins);
      }
    });
  };
}

template <class T>
Kernel typed_backward(const KernelArgs& a) {
  const Tensor dy = a.in[0], x = a.in[1], rois = a.in[2], images = a.in[3], dx = a.out[0];
  const Shape s(x.dims, rois.dims, a.attrs());
  const int64_t batch = x.dims[0], bins = s.out_h * s.out_w, plane_size = s.h * s.w;
  return [=] {
    // The thread of a plane (channel of an image) of dx adds the gradients of the regions in order.
    parallel_ranges(batch * s.channels, 4096 / (s.regions * bins + plane_size + 1) + 1,
                    [&](int64_t begin, int64_t end) {
                      T* const sums = thread_scratch<T>(plane_size, 0);
                      T* const line = thread_scratch<T>(bins, 1);
                      T* const values = thread_scratch<T>(plane_size, 2);
                      T roi[4];
                      for (int64_t i = begin; i < end; ++i) {
                        const int64_t n = i / s.channels, c = i % s.channels;
                        T* const to = row_buffer<T>(dx, i, plane_size, sums);
                        std::fill_n(to, plane_size, T(0));
                        const T* const plane = s.max ? load_row<T>(x, i, plane_size, values) : nullptr;
                        const auto value = [plane](int64_t k) { return plane[k]; };
                        for (int64_t r = 0; r < s.regions; ++r) {
                          if (image_of(images, r, batch) != n) continue;
                          const Bins<T> b(s, load_row<T>(rois, r, 4, roi));
                          const T* const up = load_row<T>(dy, r * s.channels + c, bins, line);
                          for (int64_t p = 0; p < bins; ++p) {
                            int64_t at = 0;
                            T weight = T(0);
                            if (s.max) {
                              largest(s, b, value, p / s.out_w, p % s.out_w, at, weight);
                              to[at] += weight * up[p];
                              continue;
                            }
                            const T share = up[p] / b.count();
                            samples_of(s, b, p / s.out_w, p % s.out_w, [&](const Corners<T>& k) {
                              for (int q = 0; q < 4; ++q) to[k.at[q]] += k.weight[q] * share;
                            });
                          }
                        }
                        store_row<T>(to, dx, i, plane_size);
                      }
                    });
  };
}

Kernel forward(const KernelArgs& a) { return in_double(a) ? typed_forward<double>(a) : typed_forward<float>(a); }
Kernel backward(const KernelArgs& a) { return in_double(a) ? typed_backward<double>(a) : typed_backward<float>(a); }

void infer(InferCtx& c) {
  const Dims &x = c.in(0).dims, &rois = c.in(1).dims, &images = c.in(2).dims;
  if (x.size() != 4 || rois.size() != 2 || rois[1] != 4 || images != Dims{rois[0]}) {
    fail(Exit::model, "E_SHAPE",
         cat("RoiAlign of ", to_string(x), " at regions ", to_string(rois), " of images ", to_string(images)));
  }
  c.out(c.in(0).dtype, {rois[0], x[1], c.attrs.i("height", 1), c.attrs.i("width", 1)});
}
void infer_grad(InferCtx& c) { c.out(c.in(1).dtype, c.in(1).dims); }
void gradient(GradBuilder& g) {
  if (g.needs(0)) g.add_grad(0, g.op("RoiAlignGrad", {g.dy(0), g.in(0), g.in(1), g.in(2)}, g.attrs()));
}

OpDef def(const char* name, void (*rule)(InferCtx&), Gradient gradient, size_t inputs) {
  OpDef d;
  d.name = name;
  d.infer = rule;
  d.gradient = gradient;
  d.min_inputs = inputs;
  return d;
}
const RegisterOp ops[] = {RegisterOp{def("RoiAlign", infer, gradient, 3)},
                          RegisterOp{def("RoiAlignGrad", infer_grad, nullptr, 4)}};
const RegisterKernel kernels[] = {{DeviceKind::cpu, "RoiAlign", forward}, {DeviceKind::cpu, "RoiAlignGrad", backward}};

constexpr int64_t kMostSamples = 1000;  // largest number of samples along each side of a bin

void lower(Lowering& l) {
  const std::string mode = l.attrs.s("mode", "avg");
  const std::string transform =
      l.attrs.s("coordinate_transformation_mode", l.version() < 16 ? "output_half_pixel" : "half_pixel");
  if (mode != "avg" && mode != "max") l.unsupported("mode '" + mode + "'");
  if (transform != "half_pixel" && transform != "output_half_pixel")
    l.unsupported("coordinate_transformation_mode '" + transform + "'");
  const Attrs a{{"height", l.attrs.i("output_height", 1)},    {"width", l.attrs.i("output_width", 1)},
                {"sampling", l.attrs.i("sampling_ratio", 0)}, {"scale", l.attrs.f("spatial_scale", 1)},
                {"half", int64_t{transform == "half_pixel"}}, {"max", int64_t{mode == "max"}}};
  if (const int64_t s = a.i("sampling", 0); s < 0 || s > kMostSamples)
    fail(Exit::model, "E_ATTR", cat("RoiAlign: sampling_ratio ", s));
  if (a.i("height", 1) < 1 || a.i("width", 1) < 1) fail(Exit::model, "E_ATTR", "RoiAlign: an output without bins");
  l.out(0, l.b.op("RoiAlign", {l.in(0), l.in(1), l.b.cast(l.in(2), DType::i64)}, a));
}
const RegisterOnnx onnx{{"RoiAlign", lower, 10, {}}};

}  // namespace
}  // namespace amp
