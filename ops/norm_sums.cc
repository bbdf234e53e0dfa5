// NormSums (ops/norm_sums.h): shape inference and a CPU kernel. Graphs for the CPU do not contain NormSums; the kernel
// adds in the order of a plain loop.
#include "ops/norm_sums.h"

#include "backend/cpu/workspace.h"
#include "backend/rows.h"
#include "ops/elementwise_op.h"

namespace amp {
namespace {

void infer(InferCtx& c) {
  const int64_t n = c.attrs.i("n", 1);
  const DType type = c.in(1).dtype;
  c.out(type, {n});
  c.out(type, {n});
  if (c.n_in() > 5 && c.inputs[5]) c.out(type, {n});
}

template <class T>
Kernel sums(const KernelArgs& a, bool accumulate) {
  const Tensor x = a.in[0], dy = a.in[3], more = a.has(4) ? a.in[4] : Tensor{}, z = a.has(5) ? a.in[5] : Tensor{};
  const T *const mean = a.in[1].as<T>(), *const rstd = a.in[2].as<T>();
  const int64_t n = a.attrs().i("n", 1), rows = x.numel() / n;
  return [=, out = a.out] {
    std::vector<T> sum(static_cast<size_t>(3 * n), T(0));
    T *const dscale = sum.data(), *const dbias = dscale + n, *const of_z = dbias + n;
    const auto row = [n](const Tensor& t, int64_t r, int i) {
      return t.data ? load_row(t, r, n, thread_scratch<T>(n, i)) : nullptr;
    };
    for (int64_t r = 0; r < rows; ++r) {
      const T *p = row(x, r, 0), *d = row(dy, r, 1), *e = row(more, r, 2), *q = row(z, r, 3);
      for (int64_t i = 0; i < n; ++i) {
        const T g = e ? d[i] + e[i] : d[i];
        dscale[i] += g * (p[i] - mean[r]) * rstd[r];
        dbias[i] += g;
        if (q) of_z[i] += q[i];
      }
    }
    for (size_t k = 0; k < out.size(); ++k) {
      T* const s = sum.data() + static_cast<int64_t>(k) * n;
      for (int64_t i = 0; accumulate && i < n; ++i) s[i] += out[k].as<T>()[i];
      convert(DTypeOf<T>::value, s, out[k].dtype, out[k].data, n);
    }
  };
}
template <bool accumulate>
Kernel prepare(const KernelArgs& a) {
  return in_double(a) ? sums<double>(a, accumulate) : sums<float>(a, accumulate);
}

OpDef def() {
  OpDef d;
  d.name = "NormSums";
  d.infer = infer;
  d.min_inputs = 4;
  return d;
}
const RegisterOp op{def()};
const RegisterKernel kernels[] = {{DeviceKind::cpu, "NormSums", prepare<false>},
                                  {DeviceKind::cpu, "NormSums+=", prepare<true>}};

}  // namespace
}  // namespace amp
