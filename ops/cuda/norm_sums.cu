// The kernels of NormSums (ops/norm_sums.h): the gradients of a norm's scale and bias, and optionally another tensor's
// column sums, in one pass over the rows (columns.cuh). Products and sums are rounded as separate operators would round
// them, so that the bits are equal.
#include "ops/cuda/norm_sums.cuh"

namespace amp::cuda {
namespace {

template <int W, int K>
struct Sums {
  using Value = float;
  static constexpr int kSums = K, kWidth = W;
  struct Context {};
  struct Loaded {
    Raw<float, W> x, dy, more, z;
    float mean, rstd;
  };
  Ref x, dy, more, z, out[3];
  const float *mean, *rstd;
  int64_t n;
  bool accumulate;
  DEV float identity() const { return 0; }
  DEV float combine(float a, float b) const { return a + b; }
  DEV Context begin(int64_t) const { return {}; }
  DEV Loaded fetch(int64_t, int64_t row, int64_t column) const {
    const int64_t at = row * n + column;
    Loaded l;
    l.x = amp::cuda::fetch<float, W>(x, at);
    l.dy = amp::cuda::fetch<float, W>(dy, at);
    if (more) l.more = amp::cuda::fetch<float, W>(more, at);
    if constexpr (K > 2) l.z = amp::cuda::fetch<float, W>(z, at);
    l.mean = mean[row];
    l.rstd = rstd[row];
    return l;
  }
  DEV void add(float (&acc)[K][W], const Loaded& l, const Context&) const {
    float p[W], d[W];
    unpack(x, l.x, p);
    unpack(dy, l.dy, d);
    if (more) {
      float e[W];
      unpack(more, l.more, e);
      for (int w = 0; w < W; ++w) d[w] = rounded_sum(d[w], e[w]);  // rounded as a separate Add node would round it
    }
    for (int w = 0; w < W; ++w) {
      acc[0][w] += scale_term(d[w], p[w], l.mean, l.rstd);
      acc[1][w] += d[w];
    }
    if constexpr (K > 2) {
      unpack(z, l.z, p);
      for (int w = 0; w < W; ++w) acc[2][w] += p[w];
    }
  }
  DEV void store(int sum, int64_t cell, float v) const {
    const Ref& to = out[sum];
    amp::cuda::store(to, cell, accumulate ? load<float>(to, cell) + v : v);
  }
};

template <int W, int K>
Kernel sums_of(const KernelArgs& a, Carver& carver, int64_t n, bool accumulate) {
  const auto optional = [&](size_t i) { return a.has(i) ? Ref(a.in[i]) : Ref(); };
  Sums<W, K> body{a.in[0], a.in[3],   optional(4), optional(5), {}, a.in[1].as<float>(), a.in[2].as<float>(),
                  n,       accumulate};
  std::copy(a.out.begin(), a.out.end(), body.out);
  return reduce_columns(a, carver, 1, a.in[0].numel() / n, n, body);
}
template <bool accumulate>
Kernel prepare(const KernelArgs& a, Carver& carver) {
  return prepare_norm_sums(a, carver, accumulate);
}

const RegisterKernel kernels[] = {
    {DeviceKind::cuda, "NormSums", with_workspace<prepare<false>>, measure_workspace<prepare<false>>},
    {DeviceKind::cuda, "NormSums+=", with_workspace<prepare<true>>}};

}  // namespace

Kernel prepare_norm_sums(const KernelArgs& a, Carver& carver, bool accumulate) {
  if (in_double(a)) no_fp64(a);
  const int64_t n = a.attrs().i("n", 1);
  if (a.out.size() > 2)
    return n % 4 == 0 ? sums_of<4, 3>(a, carver, n, accumulate) : sums_of<1, 3>(a, carver, n, accumulate);
  return n % 4 == 0 ? sums_of<4, 2>(a, carver, n, accumulate) : sums_of<1, 2>(a, carver, n, accumulate);
}

}  // namespace amp::cuda
