// com.microsoft Inverse: inverses Y of square matrices (..., n, n); torch.inverse is exported as this operator. The
// gradient dX = -Y^T dY Y^T consists of core operators, so it is differentiable.
#include "ops/inverse.h"

#include "backend/rows.h"
#include "ops/elementwise_op.h"

namespace amp {
namespace {

template <class T>
Kernel typed_inverse(const KernelArgs& a) {
  const Tensor x = a.in[0], y = a.out[0];
  const int64_t n = x.dims.back(), elements = n * n, matrices = elements > 0 ? x.numel() / elements : 0;
  return [=] {
    parallel_ranges(matrices, 1 + 4096 / (elements * n + 1), [&](int64_t begin, int64_t end) {
      T* const m = thread_scratch<T>(elements, 0);
      T* const inverse = thread_scratch<T>(elements, 1);
      const auto size = static_cast<int64_t>(size_of(x.dtype));
      for (int64_t i = begin; i < end; ++i) {
        convert(x.dtype, static_cast<const char*>(x.data) + i * elements * size, DTypeOf<T>::value, m, elements);
        invert(m, inverse, n, 1);
        convert(DTypeOf<T>::value, inverse, y.dtype, static_cast<char*>(y.data) + i * elements * size, elements);
      }
    });
  };
}
Kernel inverse(const KernelArgs& a) { return in_double(a) ? typed_inverse<double>(a) : typed_inverse<float>(a); }

void infer_inverse(InferCtx& c) {
  const Dims& d = c.in(0).dims;
  if (d.size() < 2 || d[d.size() - 1] != d[d.size() - 2])
    fail(Exit::model, "E_SHAPE", cat("Inverse of ", to_string(d), ": needs square matrices"));
  c.out(c.in(0).dtype, d);
}

void gradient(GradBuilder& g) {
  const ValueId y = g.op("Inverse", {g.in(0)});
  const ValueId left = g.op("MatMul", {y, g.dy(0)}, {{"transA", int64_t{1}}, {"transB", int64_t{0}}, {"alpha", -1.0}});
  g.add_grad(0, g.op("MatMul", {left, y}, {{"transA", int64_t{0}}, {"transB", int64_t{1}}, {"alpha", 1.0}}));
}

OpDef def() {
  OpDef d;
  d.name = "Inverse";
  d.infer = infer_inverse;
  d.gradient = gradient;
  return d;
}
const RegisterOp op{def()};
const RegisterKernel kernel{DeviceKind::cpu, "Inverse", inverse};
const RegisterOnnx onnx{{"Inverse", lower_same_name, 1, "com.microsoft"}};

}  // namespace
}  // namespace amp
