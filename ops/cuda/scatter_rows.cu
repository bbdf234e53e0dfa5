// ScatterRows (ops/gather.cc): the gradient of an embedding.
#include "ops/cuda/scatter_rows.cuh"

namespace amp::cuda {
namespace {

struct RowPlace {
  Ref indices;
  int64_t n;
  DEV int64_t operator()(int64_t i) const {
    const int64_t k = wrapped(load<int64_t>(indices, i), n);
    return k < 0 ? n : k;
  }
};

template <bool accumulate>
Kernel scatter_rows(const KernelArgs& a, Carver& carver) {
  require_index_type(a.in[1]);
  if (a.in[0].dtype == DType::f64 || a.out[0].dtype == DType::f64) no_fp64(a);
  RowSums s{a.in[0], a.out[0], a.attrs().i("outer", 1), a.in[1].numel(), a.attrs().i("n", 1), a.attrs().i("inner", 1)};
  s.accumulate = accumulate;
  return sum_rows(a, carver, s, RowPlace{a.in[1], s.n});
}

const RegisterKernel kernels[] = {
    {DeviceKind::cuda, "ScatterRows", with_workspace<scatter_rows<false>>, measure_workspace<scatter_rows<false>>},
    {DeviceKind::cuda, "ScatterRows+=", with_workspace<scatter_rows<true>>}};

}  // namespace
}  // namespace amp::cuda
