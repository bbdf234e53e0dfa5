// The kernels of LayerNorm, LayerNormGrad and LayerNormGradWeights (ops/layer_norm.cc), which RMSNorm uses without the
// mean. A warp or a block processes a row and keeps it in registers if it is short enough (row_part.cuh). The variance
// is computed in a second pass over the row, in fp32. Gradients of scale and bias are column sums (columns.cuh).
#include "backend/cuda/row_part.cuh"
#include "ops/cuda/chunk_sums.cuh"

namespace amp::cuda {
namespace {

template <int V>
struct Forward {
  static constexpr int W = RowPart<V>::W;
  Ref x, scale, bias, y;
  float *mean, *rstd;
  int64_t n;
  float epsilon;
  bool rms;
  DEV void operator()(int64_t row, const RowTeam& team) const {
    const RowPart<V> part(x, row * n, n, team);
    float m = 0, var = 0;
    if (!rms) {
      part.each(n, team, [&](auto g, int64_t i) {
        float p[W];
        part.get(g, i, p);
        for (int w = 0; w < W; ++w) m += p[w];
      });
      m = team.reduce(m, 0.0f, Sum{}) / static_cast<float>(n);
    }
    part.each(n, team, [&](auto g, int64_t i) {
      float p[W];
      part.get(g, i, p);
      for (int w = 0; w < W; ++w) var += (p[w] - m) * (p[w] - m);
    });
    var = team.reduce(var, 0.0f, Sum{}) / static_cast<float>(n);
    const float s = 1 / sqrtf(var + epsilon);
    if (team.leads()) {
      mean[row] = m;
      rstd[row] = s;
    }
    part.each(n, team, [&](auto g, int64_t i) {
      float p[W], a[W], b[W] = {};
      part.get(g, i, p);
      load_some(scale, i, a);
      if (bias) load_some(bias, i, b);
      for (int w = 0; w < W; ++w) p[w] = normalized(p[w], m, s, a[w], b[w]);
      store_some(y, row * n + i, p);
    });
  }
};

template <int V>
struct Backward {
  static constexpr int W = RowPart<V>::W;
  Ref x, scale, dy, dx;
  const float *mean, *rstd;
  int64_t n;
  bool rms;
  DEV void operator()(int64_t row, const RowTeam& team) const {
    const RowPart<V> part(x, row * n, n, team), grad(dy, row * n, n, team);
    const float m = mean[row], s = rstd[row];
    float avg = 0, dot = 0;
    part.each(n, team, [&](auto g, int64_t i) {
      float p[W], d[W], a[W];
      part.get(g, i, p);
      grad.get(g, i, d);
      load_some(scale, i, a);
      for (int w = 0; w < W; ++w) {
        avg += d[w] * a[w];
        dot += d[w] * a[w] * (p[w] - m);
      }
    });
    avg = rms ? 0.0f : team.reduce(avg, 0.0f, Sum{}) / static_cast<float>(n);
    dot = team.reduce(dot, 0.0f, Sum{}) * s / static_cast<float>(n);
    part.each(n, team, [&](auto g, int64_t i) {
      float p[W], d[W], a[W];
      part.get(g, i, p);
      grad.get(g, i, d);
      load_some(scale, i, a);
      for (int w = 0; w < W; ++w) p[w] = s * (d[w] * a[w] - avg - (p[w] - m) * s * dot);
      store_some(dx, row * n + i, p);
    });
  }
};

template <int W>
struct Weights {
  using Value = float;
  static constexpr int kSums = 2, kWidth = W;
  struct Context {};
  struct Loaded {
    Raw<float, W> x, dy;
    float mean, rstd;
  };
  Ref x, dy, dscale, dbias;
  const float *mean, *rstd;
  int64_t n;
  bool accumulate;
  DEV float identity() const { return 0; }
  DEV float combine(float a, float b) const { return a + b; }
  DEV Context begin(int64_t) const { return {}; }
  DEV Loaded fetch(int64_t, int64_t row, int64_t column) const {
    return {amp::cuda::fetch<float, W>(x, row * n + column), amp::cuda::fetch<float, W>(dy, row * n + column),
            mean[row], rstd[row]};
  }
  DEV void add(float (&acc)[2][W], const Loaded& l, const Context&) const {
    float p[W], d[W];
    unpack(x, l.x, p);
    unpack(dy, l.dy, d);
    for (int w = 0; w < W; ++w) {
      acc[0][w] += scale_term(d[w], p[w], l.mean, l.rstd);
      acc[1][w] += d[w];
    }
  }
  DEV void store(int sum, int64_t cell, float v) const {
    const Ref& to = sum == 0 ? dscale : dbias;
    amp::cuda::store(to, cell, accumulate ? load<float>(to, cell) + v : v);
  }
};

template <class Body>
Kernel rows_kernel(const KernelArgs& a, const Body& body) {
  return [&d = device_of(a), body, rows = a.in[0].numel() / body.n] { for_each_row(d, rows, body.n, body); };
}

Kernel forward(const KernelArgs& a) {
  if (in_double(a)) no_fp64(a);
  const int64_t n = a.attrs().i("n", 1);
  return by_length(n, [&](auto v) -> Kernel {
    return rows_kernel(
        a, Forward<decltype(v)::value>{a.in[0], a.in[1], a.has(2) ? Ref(a.in[2]) : Ref(), a.out[0],
                                       a.out[1].as<float>(), a.out[2].as<float>(), n,
                                       static_cast<float>(a.attrs().f("epsilon", 1e-5)), a.attrs().i("rms", 0) != 0});
  });
}

Kernel backward(const KernelArgs& a) {
  if (in_double(a)) no_fp64(a);
  const int64_t n = a.attrs().i("n", 1);
  return by_length(n, [&](auto v) -> Kernel {
    return rows_kernel(a, Backward<decltype(v)::value>{a.in[0], a.in[1], a.in[4], a.out[0], a.in[2].as<float>(),
                                                       a.in[3].as<float>(), n, a.attrs().i("rms", 0) != 0});
  });
}

template <int W>
Kernel weights_of(const KernelArgs& a, Carver& carver, int64_t n, bool accumulate) {
  const Weights<W> body{a.in[0], a.in[3], a.out[0], a.out[1], a.in[1].as<float>(), a.in[2].as<float>(), n, accumulate};
  return reduce_columns(a, carver, 1, a.in[0].numel() / n, n, body);
}
template <bool accumulate>
Kernel weights(const KernelArgs& a, Carver& carver) {
  if (in_double(a)) no_fp64(a);
  const int64_t n = a.attrs().i("n", 1);
  return n % 4 == 0 ? weights_of<4>(a, carver, n, accumulate) : weights_of<1>(a, carver, n, accumulate);
}

const RegisterKernel kernels[] = {
    {DeviceKind::cuda, "LayerNorm", forward},
    {DeviceKind::cuda, "LayerNormGrad", backward},
    {DeviceKind::cuda, "LayerNormGradWeights", with_workspace<weights<false>>, measure_workspace<weights<false>>},
    {DeviceKind::cuda, "LayerNormGradWeights+=", with_workspace<weights<true>>}};

}  // namespace
}  // namespace amp::cuda
