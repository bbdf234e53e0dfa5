// The kernels of Conv, ConvGradX and ConvGradW (ops/conv.cc). im2col writes the columns of some images at a time to
// workspace, and CudaDevice::gemm() multiplies them by the weights. Sums are fp32, also those of the columns'
// gradients. Depthwise convolutions have separate kernels. If the device has a convolution library for the types, the
// library replaces these kernels after validation (backend/cuda/convolution.h).
#include "ops/cuda/conv_problem.cuh"

namespace amp::cuda {
namespace {

// Computes one product per image and group: c = w b or c = w^T b. b and c are (images, groups, rows, p), w is (groups,
// m, k). A batched product runs over images or over groups, whichever is the larger number.
class EachGroup {
 public:
  EachGroup(CudaDevice& d, const ConvProblem& p, Gemm g, int64_t images) : g_(g), weights_(p.s.m * p.k) {
    step_b_ = g.k * g.n;
    step_c_ = g.m * g.n;
    const bool aligned =
        step_b_ * size_of(g.in) % 16 == 0 && step_c_ * size_of(g.out) % 16 == 0 && weights_ * size_of(g.in) % 16 == 0;
    const bool over_images =
        // A batch over images requires that each group is aligned, because the library derives the alignment of all
        // products from the strides.
        p.s.groups == 1 || (images >= p.s.groups && aligned);
    g_.batch = over_images ? images : p.s.groups;
    times_ = over_images ? p.s.groups : images;
    g_.stride_a = over_images ? 0 : weights_;
    g_.stride_b = over_images ? step_b_ * p.s.groups : step_b_;
    g_.stride_c = over_images ? step_c_ * p.s.groups : step_c_;
    next_a_ = over_images ? weights_ : 0;
    next_b_ = over_images ? step_b_ : step_b_ * p.s.groups;
    next_c_ = over_images ? step_c_ : step_c_ * p.s.groups;
    product_ = d.gemm(g_);
  }
  void operator()(const void* w, const void* b, void* c) const {
    for (int64_t i = 0; i < times_; ++i)
      product_(at(w, i * next_a_, g_.in), at(b, i * next_b_, g_.in), at(c, i * next_c_, g_.out));
  }

 private:
  Gemm g_;
  int64_t weights_, step_b_ = 0, step_c_ = 0, times_ = 1, next_a_ = 0, next_b_ = 0, next_c_ = 0;
  std::function<void(const void*, const void*, void*)> product_;
};

Kernel forward(const KernelArgs& a, Carver& carve) {
  if (has_channels_last(a.attrs())) return conv_last(a, carve);
  const ConvProblem q(a, conv_shape(a.in[0].dims, a.in[1].dims, a.out[0].dims, a.attrs()), a.out[0]);
  const Tensor bias = a.has(2) ? a.in[2] : Tensor{};
  if (q.empty()) return carve.measuring() ? Kernel{} : fill(device_of(a), a.out[0], bias, q.gm, q.p);
  if (q.depthwise()) {
    if (carve.measuring()) return {};
    return by_type({a.in[0], a.in[1], bias, a.out[0]}, [&](auto r) -> Kernel {
      const DepthwiseForward<decltype(r)> body{a.in[0], a.in[1], bias, a.out[0], q.window, q.s.groups, q.s.m};
      return [&d = device_of(a), body, n = a.out[0].numel()] { for_each(d, n, body); };
    });
  }
  const Staged x = Staged::input(a, carve, a.in[0], q.in), w = Staged::input(a, carve, a.in[1], q.in),
               y = Staged::output(a, carve, a.out[0], q.out);
  const int64_t image = q.s.groups * q.k * q.p,
                step = q.pointwise() ? q.s.n : q.images_at_a_time(image * size_of(q.in));
  char* const columns = q.pointwise() ? nullptr : carve.take<char>(step * image * size_of(q.in));
  if (carve.measuring()) return {};
  CudaDevice& d = device_of(a);
  const Tensor result{y.data, q.out, a.out[0].dims};
  Gemm g{q.s.m, q.p, q.k};
  g.in = q.in;
  g.out = q.out;
  g.beta = bias.data ? 1 : 0;
  const ImageChunks<EachGroup> chunks(q.s.n, step, [&](int64_t images) { return EachGroup(d, q, g, images); });
  const Kernel fill_bias = bias.data ? fill(d, result, bias, q.gm, q.p) : Kernel([] {});
  const Kernel own = [=, &d, in = q.in, out = q.out, window = q.window, gc = q.gc, taps = q.s.taps(), p = q.p,
                      from = q.gc * q.in_size, to = q.gm * q.p] {
    fill_bias();
    chunks.each([&](int64_t first, int64_t images, const EachGroup& product) {
      const void* b = at(x.data, first * from, in);
      if (columns) {
        launch_rows<Im2col>(d, images * gc * taps, p, in, b, columns, window, gc, false, SmallDivisor(images),
                            SmallDivisor(taps));
        b = columns;
      }
      product(w.data, b, at(result.data, first * to, out));
    });
  };
  return staged(x, w, y,
                guarded(q, ConvolutionKind::forward, {x.data, w.data, nullptr, y.data}, a.out[0].dims, own, bias));
}

Kernel grad_x(const KernelArgs& a, Carver& carve) {
  if (has_channels_last(a.attrs())) return conv_last_grad_x(a, carve);
  const ConvProblem q(a, conv_shape(a.out[0].dims, a.in[1].dims, a.in[0].dims, a.attrs()), a.out[0]);
  if (q.empty()) return carve.measuring() ? Kernel{} : fill(device_of(a), a.out[0], {}, 1, 1);
  if (q.depthwise()) {
    if (carve.measuring()) return {};
    return by_type({a.in[0], a.in[1], a.out[0]}, [&](auto r) -> Kernel {
      const DepthwiseGradX<decltype(r)> body{a.in[0], a.in[1], a.out[0], q.window, q.s.m, SmallDivisor(q.s.groups)};
      return [&d = device_of(a), body, n = a.out[0].numel()] { for_each(d, n, body); };
    });
  }
  const bool direct = q.pointwise();
  const Staged dy = Staged::input(a, carve, a.in[0], q.in), w = Staged::input(a, carve, a.in[1], q.in),
               dx = Staged::output(a, carve, a.out[0], q.out);
  const int64_t image = q.s.groups * q.k * q.p, step = direct ? q.s.n : q.images_at_a_time(image * 4);
  float* const columns = direct ? nullptr : carve.take<float>(step * image);
  if (carve.measuring()) return {};
  CudaDevice& d = device_of(a);
  Gemm g{q.k, q.p, q.s.m};
  g.trans_a = true;
  g.in = q.in;
  g.out = direct ? q.out : DType::f32;
  const ImageChunks<EachGroup> chunks(q.s.n, step, [&](int64_t images) { return EachGroup(d, q, g, images); });
  const Ref result = Tensor{dx.data, q.out, a.out[0].dims};
  const Kernel own = [=, &d, in = q.in, out = q.out, window = q.window, from = q.gm * q.p, to = q.gc * q.in_size] {
    chunks.each([&](int64_t first, int64_t images, const EachGroup& product) {
      product(w.data, at(dy.data, first * from, in),
              columns ? static_cast<void*>(columns) : at(result.data, first * to, out));
      if (columns) for_each(d, images * to, Col2im{columns, result, first * to, window});
    });
  };
  return staged(dy, w, dx,
                guarded(q, ConvolutionKind::grad_x, {dy.data, w.data, nullptr, dx.data}, a.out[0].dims, own));
}

Kernel grad_w(const KernelArgs& a, Carver& carve) {
  if (has_channels_last(a.attrs())) return conv_last_grad_w(a, carve);
  ConvProblem q(a, conv_shape(a.in[0].dims, a.out[0].dims, a.in[1].dims, a.attrs()), a.out[0]);
  if (q.empty()) return carve.measuring() ? Kernel{} : fill(device_of(a), a.out[0], {}, 1, 1);
  if (q.depthwise()) {
    if (carve.measuring()) return {};
    return by_type({a.in[0], a.in[1]}, [&](auto r) -> Kernel {
      const DepthwiseGradW<decltype(r)> body{a.in[0], a.in[1], a.out[0], q.window, q.s.n, q.s.groups, q.s.m};
      return [&d = device_of(a), body, rows = a.out[0].numel(), n = q.s.n * q.p] { for_each_row(d, rows, n, body); };
    });
  }
  // One product per group sums over the outputs of several images. Both operands are first laid out as (groups, rows,
  // images, p).
  const int64_t image = (q.s.groups * q.k + q.gm) * q.p, step = q.images_at_a_time(image * size_of(q.in));
  if (step < q.s.n) q.out = DType::f32;  // the chunks' results are added in fp32
  const Staged x = Staged::input(a, carve, a.in[0], q.in), dy = Staged::input(a, carve, a.in[1], q.in),
               dw = Staged::output(a, carve, a.out[0], q.out);
  void* const rounded = take_rounded(q, carve, a.out[0]);
  const bool single = step == 1, direct = single && q.pointwise();
  char* const columns = direct ? nullptr : carve.take<char>(step * q.s.groups * q.k * q.p * size_of(q.in));
  char* const above = single ? nullptr : carve.take<char>(step * q.gm * q.p * size_of(q.in));
  if (carve.measuring()) return {};
  CudaDevice& d = device_of(a);
  const auto make = [&](int64_t images, bool add) {
    Gemm g{q.s.m, q.k, images * q.p, q.s.groups, false, true};
    g.stride_a = g.m * g.k;
    g.stride_b = g.n * g.k;
    g.stride_c = g.m * g.n;
    g.in = q.in;
    g.out = q.out;
    g.beta = add ? 1 : 0;
    return d.gemm(g);
  };
  using WeightProduct = std::function<void(const void*, const void*, void*)>;
  const WeightProduct begin = make(step, false);
  const ImageChunks<WeightProduct> more(q.s.n, step, [&](int64_t images) { return make(images, true); });
  const Kernel own = [=, &d, in = q.in, window = q.window, gc = q.gc, gm = q.gm, taps = q.s.taps(), p = q.p,
                      size = q.in_size] {
    more.each([&](int64_t first, int64_t images, const WeightProduct& add) {
      const void *b = at(x.data, first * gc * size, in), *up = at(dy.data, first * gm * p, in);
      if (columns) {
        launch_rows<Im2col>(d, images * gc * taps, p, in, b, columns, window, gc, true, SmallDivisor(images),
                            SmallDivisor(taps));
        b = columns;
      }
      if (above) {
        launch_rows<ChannelsFirst>(d, images * gm, p, in, up, above, gm, p, SmallDivisor(images));
        up = above;
      }
      (first == 0 ? begin : add)(up, b, dw.data);
    });
  };
  return staged(
      x, dy, dw,
      guarded(q, ConvolutionKind::grad_w, {x.data, dy.data, nullptr, dw.data}, a.out[0].dims, own, {}, rounded));
}

const RegisterConvolutionUser users[] = {RegisterConvolutionUser("Conv"), RegisterConvolutionUser("ConvGradX"),
                                         RegisterConvolutionUser("ConvGradW")};
const RegisterKernel kernels[] = {{DeviceKind::cuda, "Conv", with_workspace<forward>, measure_workspace<forward>},
                                  {DeviceKind::cuda, "ConvGradX", with_workspace<grad_x>, measure_workspace<grad_x>},
                                  {DeviceKind::cuda, "ConvGradW", with_workspace<grad_w>, measure_workspace<grad_w>}};

}  // namespace
}  // namespace amp::cuda
