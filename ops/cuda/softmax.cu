// The kernels of Softmax, LogSoftmax and their gradients (ops/softmax.cc), over the last axis. A warp or a block
// processes a row: it subtracts the row's maximum, sums the exponentials in fp32 and divides. Rows of up to 8 groups of
// four elements per thread stay in registers between the passes (row_part.cuh).
#include "backend/cuda/row_part.cuh"

namespace amp::cuda {
namespace {

template <bool Log, int V>
struct Forward {
  static constexpr int W = RowPart<V>::W, min_blocks = V ? 0 : 6;
  Ref x, y;
  int64_t n;
  bool empty_rows_zero;
  DEV void operator()(int64_t row, const RowTeam& team) const {
    const RowPart<V> part(x, row * n, n, team);
    float top = -INFINITY, sum = 0;
    part.each(n, team, [&](auto g, int64_t i) {
      float v[W];
      part.get(g, i, v);
      for (int w = 0; w < W; ++w) top = Maximum{}(top, v[w]);
    });
    top = team.reduce(top, -INFINITY, Maximum{});
    part.each(n, team, [&](auto g, int64_t i) {
      float v[W];
      part.get(g, i, v);
      for (int w = 0; w < W; ++w) sum += expf(v[w] - top);
    });
    sum = team.reduce(sum, 0.0f, Sum{});
    const bool empty = empty_rows_zero && top == -INFINITY;
    const float scale = 1 / sum, log_sum = logf(sum);
    part.each(n, team, [&](auto g, int64_t i) {
      float v[W];
      part.get(g, i, v);
      for (int w = 0; w < W; ++w) v[w] = empty ? 0.0f : Log ? (v[w] - top) - log_sum : expf(v[w] - top) * scale;
      store_some(y, row * n + i, v);
    });
  }
};

// Computes dx = y (dy - sum(y dy)) for Softmax and dx = dy - e^y sum(dy) for LogSoftmax. If y is NaN and all of the
// row's dy are 0, dx is 0.
template <bool Log, int V>
struct Backward {
  static constexpr int W = RowPart<V>::W, min_blocks = V ? 0 : 6;
  Ref y, dy, dx;
  int64_t n;
  DEV void operator()(int64_t row, const RowTeam& team) const {
    const RowPart<V> result(y, row * n, n, team), grad(dy, row * n, n, team);
    float sum = 0, arrived = 0;
    result.each(n, team, [&](auto g, int64_t i) {
      float p[W], d[W];
      result.get(g, i, p);
      grad.get(g, i, d);
      for (int w = 0; w < W; ++w) {
        sum += Log ? d[w] : p[w] * d[w];
        if (d[w] != 0) arrived = 1;  // true for NaN too
      }
    });
    const float first = load<float>(y, row * n);  // read before the reductions, because dx may overwrite y
    sum = team.reduce(sum, 0.0f, Sum{});
    arrived = team.reduce(arrived, 0.0f, Maximum{});
    const bool guarded = first != first && arrived == 0;
    result.each(n, team, [&](auto g, int64_t i) {
      float p[W], d[W];
      result.get(g, i, p);
      grad.get(g, i, d);
      for (int w = 0; w < W; ++w) d[w] = guarded ? 0.0f : Log ? d[w] - expf(p[w]) * sum : p[w] * (d[w] - sum);
      store_some(dx, row * n + i, d);
    });
  }
};

template <class Body>
Kernel prepare(const KernelArgs& a, const Body& body) {
  return [&d = device_of(a), rows = a.out[0].numel() / body.n, body] { for_each_row(d, rows, body.n, body); };
}
template <bool Log>
Kernel forward(const KernelArgs& a) {
  if (in_double(a)) no_fp64(a);
  if (a.out[0].numel() == 0) return [] {};
  const int64_t n = a.out[0].dims.back();
  const bool empty_rows_zero = a.attrs().i("empty_rows_zero", 0) != 0;
  return by_length(n, [&](auto v) {
    return prepare(a, Forward<Log, decltype(v)::value>{a.in[0], a.out[0], n, empty_rows_zero});
  });
}
template <bool Log>
Kernel backward(const KernelArgs& a) {
  if (in_double(a)) no_fp64(a);
  if (a.out[0].numel() == 0) return [] {};
  const int64_t n = a.out[0].dims.back();
  return by_length(n, [&](auto v) {
    return prepare(a, Backward<Log, decltype(v)::value>{a.in[0], a.in[1], a.out[0], n});
  });
}

const RegisterKernel kernels[] = {{DeviceKind::cuda, "Softmax", forward<false>},
                                  {DeviceKind::cuda, "SoftmaxGrad", backward<false>},
                                  {DeviceKind::cuda, "LogSoftmax", forward<true>},
                                  {DeviceKind::cuda, "LogSoftmaxGrad", backward<true>}};

}  // namespace
}  // namespace amp::cuda
