// The kernels of MaxPool, MaxPoolGrad, MaxPoolIndex, AveragePool and AveragePoolGrad (ops/pool.cc), in NCHW and
// channels-last layout. Each element of the result has one thread; threads of a warp access contiguous elements. A
// gradient element reads all windows that cover its input, in the order of the outputs, so sums do not depend on the
// order of the threads.
#include "backend/channels_last.h"
#include "backend/cuda/rows.cuh"
#include "backend/cuda/typed.cuh"
#include "backend/cuda/window.cuh"

namespace amp::cuda {
namespace {

struct Shape {
  DeviceWindow w;
  int64_t in, out;   // number of positions per plane of the input, and of the output
  int64_t step = 1;  // distance of neighboring positions: 1, or the channels in channels-last layout

  Shape(const Dims& x, const Dims& y, const Attrs& a) : Shape(window_of(x, y, a)) {
    if (has_channels_last(a)) step = x.back();
  }
  // The result of spot() for element i of a tensor with `own` positions per plane (one channel of an image). place: the
  // element's position in its plane. other: offset of the first position of the same channel in a tensor with `others`
  // positions per plane.
  struct Spot {
    int place;
    int64_t other;
  };
  DEV Spot spot(int64_t i, int64_t own, int64_t others) const {
    if (step == 1) {
      const int64_t plane = quotient(i, own);
      return {static_cast<int>(i - plane * own), plane * others};
    }
    const int64_t all = quotient(i, step), image = quotient(all, own);
    return {static_cast<int>(all - image * own), image * others * step + (i - all * step)};
  }

 private:
  explicit Shape(const SlidingWindow& window)
      : w(window), in(volume(window, &WindowAxis::in)), out(volume(window, &WindowAxis::out)) {}
  static SlidingWindow window_of(const Dims& x, const Dims& y, const Attrs& a) {
    if (!has_channels_last(a)) return make_window(x, y, a.ints("kernel"), a);
    return make_window(channels_first(x), channels_first(y), a.ints("kernel"), a);
  }
};

// Returns the first tap (element of the window) that is inside the input; 0 if there is none.
DEV int start(const DeviceAxis& a, int o) {
  const int k = a.first_tap(o);
  return k < a.kernel ? k : 0;
}

template <class R, class Tap>
struct MaxPool {
  static constexpr int min_blocks = 4;
  R x, y;
  Tap* taps;
  Shape s;
  DEV void operator()(int64_t i) const {
    const Shape::Spot at_i = s.spot(i, s.out, s.in);
    int od, oh, ow;
    s.w.output(at_i.place, od, oh, ow);
    float best = -INFINITY;
    int which = (start(s.w.d, od) * s.w.h.kernel + start(s.w.h, oh)) * s.w.w.kernel + start(s.w.w, ow);
    each_tap(s.w, od, oh, ow, [&](int tap, int at) {
      const float v = load<float>(x, at_i.other + at * s.step);
      if (v > best || v != v) best = v, which = tap;
    });
    store(y, i, best);
    taps[i] = static_cast<Tap>(which);
  }
};

template <class R, class Tap>
struct MaxPoolGrad {
  static constexpr int min_blocks = 4;
  R dy, dx;
  const Tap* taps;
  Shape s;
  DEV void operator()(int64_t i) const {
    const Shape::Spot at_i = s.spot(i, s.in, s.out);
    float sum = 0;
    each_output(s.w, at_i.place, [&](int o, int, int, int, int tap) {
      const int64_t at = at_i.other + o * s.step;
      if (static_cast<int>(taps[at]) == tap) sum += load<float>(dy, at);
    });
    store(dx, i, sum);
  }
};

// Converts the tap that MaxPool saved for each output to ONNX's flat index into the input.
struct MaxPoolIndex {
  Ref taps, index;
  Shape s;
  DEV void operator()(int64_t i) const {
    const int64_t plane = quotient(i, s.out);
    int od, oh, ow, tap = load<int>(taps, i);
    s.w.output(static_cast<int>(i - plane * s.out), od, oh, ow);
    if (tap < 0 || tap >= s.w.taps()) tap = 0;
    const int kw = tap % s.w.w.kernel, kh = tap / s.w.w.kernel % s.w.h.kernel, kd = tap / (s.w.w.kernel * s.w.h.kernel);
    store(index, i,
          plane * s.in + (int64_t{s.w.d.at(od, kd)} * s.w.h.in + s.w.h.at(oh, kh)) * s.w.w.in + s.w.w.at(ow, kw));
  }
};

// Returns the number of taps along one axis that count in output o's average, at least 1.
DEV float counted(const DeviceAxis& a, int o, bool padding) {
  const int n = padding ? a.padded_taps(o) : a.last_tap(o) - a.first_tap(o);
  return n < 1 ? 1.0f : static_cast<float>(n);
}
DEV float divisor(const DeviceWindow& w, int od, int oh, int ow, bool padding) {
  return counted(w.d, od, padding) * counted(w.h, oh, padding) * counted(w.w, ow, padding);
}

template <class R>
struct AveragePool {
  static constexpr int min_blocks = 4;
  R x, y;
  Shape s;
  bool padding;
  DEV void operator()(int64_t i) const {
    const Shape::Spot at_i = s.spot(i, s.out, s.in);
    int od, oh, ow;
    s.w.output(at_i.place, od, oh, ow);
    float sum = 0;
    each_tap(s.w, od, oh, ow, [&](int, int at) { sum += load<float>(x, at_i.other + at * s.step); });
    store(y, i, sum / divisor(s.w, od, oh, ow, padding));
  }
};

template <class R>
struct AveragePoolGrad {
  static constexpr int min_blocks = 4;
  R dy, dx;
  Shape s;
  bool padding;
  DEV void operator()(int64_t i) const {
    const Shape::Spot at_i = s.spot(i, s.in, s.out);
    float sum = 0;
    each_output(s.w, at_i.place, [&](int o, int od, int oh, int ow, int) {
      sum += load<float>(dy, at_i.other + o * s.step) / divisor(s.w, od, oh, ow, padding);
    });
    store(dx, i, sum);
  }
};

// Global average pooling. The rows of the row kernel are planes.
struct GlobalAverage {
  Ref x, y;
  int64_t n;
  DEV void operator()(int64_t row, const RowTeam& team) const {
    float sum = 0;
    team.for_each(n, [&](int64_t i) { sum += load<float>(x, row * n + i); });
    sum = team.reduce(sum, 0.0f, Sum{});
    if (team.leads()) store(y, row, sum / static_cast<float>(n));
  }
};
bool is_global(const DeviceWindow& w) {
  for (const DeviceAxis* a : {&w.d, &w.h, &w.w}) {
    if (a->out != 1 || a->kernel != a->in || a->dilation != 1 || a->pad != 0) return false;
  }
  return true;
}

void only_fp32(const KernelArgs& a) {
  if (in_double(a)) no_fp64(a);
}
template <class Body>
Kernel each_element(const KernelArgs& a, const Body& body) {
  return [&d = device_of(a), body, n = a.out[0].numel()] { for_each(d, n, body); };
}

template <class Tap>
Kernel max_pool_of(const KernelArgs& a) {
  return by_type({a.in[0], a.out[0]}, [&](auto r) {
    using R = decltype(r);
    return each_element(a, MaxPool<R, Tap>{a.in[0], a.out[0], static_cast<Tap*>(a.out[1].data),
                                           Shape(a.in[0].dims, a.out[0].dims, a.attrs())});
  });
}
Kernel max_pool(const KernelArgs& a) {
  only_fp32(a);
  return a.out[1].dtype == DType::u8 ? max_pool_of<uint8_t>(a) : max_pool_of<int32_t>(a);
}
template <class Tap>
Kernel max_pool_grad_of(const KernelArgs& a) {
  return by_type({a.in[0], a.out[0]}, [&](auto r) {
    using R = decltype(r);
    return each_element(a, MaxPoolGrad<R, Tap>{a.in[0], a.out[0], static_cast<const Tap*>(a.in[1].data),
                                               Shape(a.out[0].dims, a.in[0].dims, a.attrs())});
  });
}
Kernel max_pool_grad(const KernelArgs& a) {
  only_fp32(a);
  return a.in[1].dtype == DType::u8 ? max_pool_grad_of<uint8_t>(a) : max_pool_grad_of<int32_t>(a);
}
Kernel max_pool_index(const KernelArgs& a) {
  return each_element(a, MaxPoolIndex{a.in[0], a.out[0], Shape(a.attrs().ints("full"), a.in[0].dims, a.attrs())});
}
bool counts_padding(const KernelArgs& a) { return a.attrs().i("count_include_pad", 0) != 0; }
Kernel average_pool(const KernelArgs& a) {
  only_fp32(a);
  const Shape s(a.in[0].dims, a.out[0].dims, a.attrs());
  if (s.step > 1 || !is_global(s.w)) {
    return by_type({a.in[0], a.out[0]}, [&](auto r) {
      return each_element(a, AveragePool<decltype(r)>{a.in[0], a.out[0], s, counts_padding(a)});
    });
  }
  const GlobalAverage body{a.in[0], a.out[0], s.in};
  return [&d = device_of(a), body, rows = a.out[0].numel()] { for_each_row(d, rows, body.n, body); };
}
Kernel average_pool_grad(const KernelArgs& a) {
  only_fp32(a);
  const Shape s(a.out[0].dims, a.in[0].dims, a.attrs());
  return by_type({a.in[0], a.out[0]}, [&](auto r) {
    return each_element(a, AveragePoolGrad<decltype(r)>{a.in[0], a.out[0], s, counts_padding(a)});
  });
}

const RegisterKernel kernels[] = {{DeviceKind::cuda, "MaxPool", max_pool},
                                  {DeviceKind::cuda, "MaxPoolGrad", max_pool_grad},
                                  {DeviceKind::cuda, "MaxPoolIndex", max_pool_index},
                                  {DeviceKind::cuda, "AveragePool", average_pool},
                                  {DeviceKind::cuda, "AveragePoolGrad", average_pool_grad}};

}  // namespace
}  // namespace amp::cuda
