// TopK: ONNX 1 (k is an attribute), 10 (k is an input), 11 (largest, sorted). Core TopK(x) {axis, k, largest} ->
// values, indices. The selected elements are ordered by value, then by index; NaN counts as the largest value. The
// gradient goes to the selected elements.
#include <algorithm>
#include <numeric>

#include "backend/rows.h"
#include "ops/elementwise_op.h"

namespace amp {
namespace {

void infer(InferCtx& c) {
  Dims d = c.in(0).dims;
  const size_t axis = static_cast<size_t>(c.attrs.i("axis", 0));
  const int64_t k = c.attrs.i("k", 0);
  if (k < 0 || k > d.at(axis)) fail(Exit::model, "E_SHAPE", cat("TopK of ", k, " among ", d.at(axis)));
  d[axis] = k;
  c.out(c.in(0).dtype, d);
  c.out(DType::i64, d);
}

template <class T>
Kernel typed(const KernelArgs& a) {
  const Tensor x = a.in[0], values = a.out[0], indices = a.out[1];
  const size_t axis = static_cast<size_t>(a.attrs().i("axis", 0));
  const int64_t n = x.dims[axis], k = a.attrs().i("k", 0);
  const bool largest = a.attrs().i("largest", 1) != 0;
  int64_t outer = 1, inner = 1;
  for (size_t d = 0; d < x.dims.size(); ++d) (d < axis ? outer : inner) *= d == axis ? 1 : x.dims[d];
  if (values.numel() == 0) return [] {};
  return [=] {
    parallel_ranges(outer * inner, 4096 / n + 1, [&](int64_t begin, int64_t end) {
      std::vector<T> line(static_cast<size_t>(n));
      std::vector<int64_t> order(static_cast<size_t>(n));
      for (int64_t r = begin; r < end; ++r) {
        const int64_t at = r / inner * n * inner + r % inner, to = r / inner * k * inner + r % inner;
        T scratch;
        for (int64_t i = 0; i < n; ++i)
          line[static_cast<size_t>(i)] = *elementwise_detail::load<T>(x, at + i * inner, 1, &scratch);
        std::iota(order.begin(), order.end(), int64_t{0});
        const auto above = [&](T p, T q) { return p != p ? q == q : p > q; };
        std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int64_t i, int64_t j) {
          const T p = line[static_cast<size_t>(i)], q = line[static_cast<size_t>(j)];
          if (largest ? above(p, q) : above(q, p)) return true;
          if (largest ? above(q, p) : above(p, q)) return false;
          return i < j;
        });
        for (int64_t i = 0; i < k; ++i) {
          const int64_t from = order[static_cast<size_t>(i)];
          convert(DTypeOf<T>::value, &line[static_cast<size_t>(from)], values.dtype,
                  static_cast<char*>(values.data) + (to + i * inner) * size_of(values.dtype), 1);
          static_cast<int64_t*>(indices.data)[to + i * inner] = from;
        }
      }
    });
  };
}
Kernel kernel(const KernelArgs& a) {
  const DType t = a.in[0].dtype;
  if (t == DType::u64) return typed<uint64_t>(a);
  if (!is_float(t)) return typed<int64_t>(a);
  return in_double(a) ? typed<double>(a) : typed<float>(a);
}

void grad(GradBuilder& g) {
  g.add_grad(0, g.op("ScatterElementsAdd", {g.dy(0), g.out(1)},
                     {{"axis", g.attrs().i("axis", 0)}, {"dims", g.dims(g.in(0))}}));
}

OpDef def() {
  OpDef d;
  d.name = "TopK";
  d.infer = infer;
  d.gradient = grad;
  return d;
}
const RegisterOp op{def()};
const RegisterKernel cpu{DeviceKind::cpu, "TopK", kernel};

void lower_topk(Lowering& l) {
  const int64_t k = l.version() < 10 ? l.attrs.i("k", 0) : l.ints(1).at(0);
  const auto out = l.b.ops(
      "TopK", {l.in(0)},
      {{"axis", normalize_axis(l.attrs.i("axis", -1), l.rank(0))}, {"k", k}, {"largest", l.attrs.i("largest", 1)}});
  l.out(0, out[0]);
  l.out(1, out[1]);
}
const RegisterOnnx onnx{{"TopK", lower_topk, 1, {}}};

}  // namespace
}  // namespace amp
