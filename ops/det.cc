// Det (ONNX 11+): determinants of square matrices (..., n, n) -> (...). Core operators: Det(x) and DetGrad(x, dy),
// which is dx = dy * cofactors of x. Unlike det * inverse, cofactors are also correct for singular matrices.
// Determinants are computed by Gaussian elimination with pivoting in fp32 or fp64.
#include "ops/det.h"

#include "backend/rows.h"
#include "ops/elementwise_op.h"
#include "ops/term.h"

namespace amp {
namespace {

template <class T>
Kernel typed_det(const KernelArgs& a) {
  const Tensor x = a.in[0], y = a.out[0];
  const int64_t n = x.dims.back(), matrices = y.numel();
  return [=] {
    parallel_ranges(matrices, 1 + 4096 / (n * n * n + 1), [&](int64_t begin, int64_t end) {
      T* const m = thread_scratch<T>(n * n, 0);
      for (int64_t i = begin; i < end; ++i) {
        convert(x.dtype, static_cast<const char*>(x.data) + i * n * n * size_of(x.dtype), DTypeOf<T>::value, m, n * n);
        const T d = determinant(m, n, 1);
        convert(DTypeOf<T>::value, &d, y.dtype, static_cast<char*>(y.data) + i * size_of(y.dtype), 1);
      }
    });
  };
}

template <class T>
Kernel typed_grad(const KernelArgs& a) {
  const Tensor x = a.in[0], dy = a.in[1], dx = a.out[0];
  const int64_t n = x.dims.back(), matrices = dy.numel();
  return [=] {
    parallel_ranges(matrices, 1, [&](int64_t begin, int64_t end) {
      T* const m = thread_scratch<T>(n * n, 0);
      T* const minor = thread_scratch<T>(n * n, 1);
      for (int64_t i = begin; i < end; ++i) {
        convert(x.dtype, static_cast<const char*>(x.data) + i * n * n * size_of(x.dtype), DTypeOf<T>::value, m, n * n);
        T up;
        convert(dy.dtype, static_cast<const char*>(dy.data) + i * size_of(dy.dtype), DTypeOf<T>::value, &up, 1);
        for (int64_t e = 0; e < n * n; ++e) {
          const int64_t row = e / n, column = e % n;
          T* to = minor;
          for (int64_t k = 0; k < n * n; ++k) {
            if (k / n != row && k % n != column) *to++ = m[k];
          }
          const T cofactor = up * determinant(minor, n - 1, 1) * ((row + column) % 2 ? T(-1) : T(1));
          convert(DTypeOf<T>::value, &cofactor, dx.dtype,
                  static_cast<char*>(dx.data) + (i * n * n + e) * size_of(dx.dtype), 1);
        }
      }
    });
  };
}
Kernel det(const KernelArgs& a) { return in_double(a) ? typed_det<double>(a) : typed_det<float>(a); }
Kernel det_grad(const KernelArgs& a) { return in_double(a) ? typed_grad<double>(a) : typed_grad<float>(a); }

void infer_det(InferCtx& c) {
  const Dims& d = c.in(0).dims;
  if (d.size() < 2 || d[d.size() - 1] != d[d.size() - 2])
    fail(Exit::model, "E_SHAPE", cat("Det of ", to_string(d), ": needs square matrices"));
  c.out(c.in(0).dtype, Dims(d.begin(), d.end() - 2));
}
void gradient(GradBuilder& g) { g.add_grad(0, g.op("DetGrad", {g.in(0), g.dy(0)})); }

// Decomposes DetGrad to dy times the signed determinants of the minors.
std::vector<ValueId> decompose_grad(Builder& b, const std::vector<ValueId>& in, const Attrs&) {
  const Term x(b, in[0]), dy(b, in[1]);
  const Dims dims = x.dims();
  const int64_t n = dims.back(), matrices = numel(dy.dims()), m = (n - 1) * (n - 1);
  Dims wide = dy.dims();
  wide.insert(wide.end(), 2, 1);
  if (n < 2) return {b.expand(dy.shaped(wide), dims)};
  std::vector<int64_t> elements;
  std::vector<double> signs;
  for (int64_t e = 0; e < n * n; ++e) {
    signs.push_back((e / n + e % n) % 2 ? -1 : 1);
    for (int64_t k = 0; k < n * n; ++k) {
      if (k / n != e / n && k % n != e % n) elements.push_back(k);
    }
  }
  const ValueId minors =
      b.op("GatherRows", {x.shaped({matrices, n * n, 1}), b.constant(HostTensor::of<int64_t>({n * n * m}, elements))},
           {{"outer", matrices}, {"n", n * n}, {"inner", int64_t{1}}, {"dims", Dims{matrices, n * n * m, 1}}});
  const Term sign(b, b.constant(HostTensor::of<double>({n, n}, signs).cast(b.dtype(x))));
  const Term cofactors = Term(b, b.reshape(minors, {matrices, n * n, n - 1, n - 1})).to("Det").shaped(dims);
  return {dy.shaped(wide) * sign * cofactors};
}

OpDef def(const char* name, void (*infer)(InferCtx&), Gradient gradient, size_t inputs,
          Decomposition decomposition = nullptr) {
  OpDef d;
  d.decomposition = decomposition;
  d.name = name;
  d.infer = infer;
  d.gradient = gradient;
  d.min_inputs = inputs;
  return d;
}
const RegisterOp ops[] = {RegisterOp{def("Det", infer_det, gradient, 1)},
                          RegisterOp{def("DetGrad", infer_same, nullptr, 2, decompose_grad)}};
const RegisterKernel kernels[] = {{DeviceKind::cpu, "Det", det}, {DeviceKind::cpu, "DetGrad", det_grad}};
const RegisterOnnx onnx{{"Det", lower_same_name, 11, {}}};

}  // namespace
}  // namespace amp
