// Softmax, LogSoftmax and their gradients (ops/softmax.cc).
#include "backend/cuda/rows.cuh"

namespace amp::cuda {
namespace {

template <bool Log>
struct Forward {
  Ref x, y;
  int64_t n;
  DEV void operator()(int64_t row, const RowTeam& team) const {
    const int64_t at = row * n;
    float top = -INFINITY;
    team.for_each(n, [&](int64_t i) { top = Maximum{}(top, load<float>(x, at + i)); });
    top = team.reduce(top, -INFINITY, Maximum{});
    float sum = 0;
    team.for_each(n, [&](int64_t i) { sum += expf(load<float>(x, at + i) - top); });
    sum = team.reduce(sum, 0.0f, Sum{});
    const float scale = 1 / sum, shift = top + logf(sum);
    team.for_each(n, [&](int64_t i) {
      const float v = load<float>(x, at + i);
      store(y, at + i, Log ? v - shift : expf(v - top) * scale);
    });
  }
};

// Softmax: dx = y (dy - sum(y dy)).  LogSoftmax: dx = dy - e^y sum(dy). A row of NaN to which no gradient arrives hands none on.
template <bool Log>
struct Backward {
  Ref y, dy, dx;
  int64_t n;
  DEV void operator()(int64_t row, const RowTeam& team) const {
    const int64_t at = row * n;
    float sum = 0, arrived = 0;
    team.for_each(n, [&](int64_t i) {
      const float d = load<float>(dy, at + i);
      sum += Log ? d : load<float>(y, at + i) * d;
      if (d != 0) arrived = 1;  // of a NaN too
    });
    sum = team.reduce(sum, 0.0f, Sum{});
    arrived = team.reduce(arrived, 0.0f, Maximum{});
    const float first = load<float>(y, at);
    const bool guarded = first != first && arrived == 0;
    team.for_each(n, [&](int64_t i) {
      const float p = load<float>(y, at + i), d = load<float>(dy, at + i);
      store(dx, at + i, guarded ? 0.0f : Log ? d - expf(p) * sum : p * (d - sum));
    });
  }
};

template <class Body>
Kernel prepare(const KernelArgs& a, const Body& body) {
  for (const Tensor& t : a.in) {
    if (t.dtype == DType::f64) no_fp64(a);
  }
  const Tensor& y = a.out[0];
  if (y.numel() == 0) return [] {};
  return [&d = device_of(a), rows = y.numel() / y.dims.back(), body] { for_each_row(d, rows, body.n, body); };
}
template <bool Log> Kernel forward(const KernelArgs& a) { return prepare(a, Forward<Log>{a.in[0], a.out[0], a.out[0].dims.back()}); }
template <bool Log> Kernel backward(const KernelArgs& a) { return prepare(a, Backward<Log>{a.in[0], a.in[1], a.out[0], a.out[0].dims.back()}); }

const RegisterKernel kernels[] = {{DeviceKind::cuda, "Softmax", forward<false>}, {DeviceKind::cuda, "SoftmaxGrad", backward<false>},
                                  {DeviceKind::cuda, "LogSoftmax", forward<true>}, {DeviceKind::cuda, "LogSoftmaxGrad", backward<true>}};

}  // namespace
}  // namespace amp::cuda
