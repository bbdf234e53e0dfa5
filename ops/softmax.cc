// Softmax and LogSoftmax (ONNX 1+). Before opset 13 the input is flattened to 2-D at the axis; from 13 on the operators
// apply to one axis. Core operators work on the last axis. Statistics are at least fp32. A row of only -inf gives NaN,
// as the formula does. With the attribute empty_rows_zero, such a row gives 0 (attention with all keys masked, as in
// scaled_dot_product_attention). A row of equal finite values (fully masked by -FLT_MAX) gives a uniform distribution.
//
// Exporters repair NaN rows by Where(IsNaN(p), 0, p), which makes dy 0 in these rows. dx must be 0 there too, although
// the formula would give NaN.
#include <algorithm>
#include <limits>
#include <numeric>

#include "backend/rows.h"
#include "ops/elementwise_op.h"
#include "ops/term.h"

namespace amp {
namespace {

template <class T>
Kernel softmax_rows(const KernelArgs& a, bool log) {
  const Tensor x = a.in[0], y = a.out[0];
  if (x.numel() == 0) return [] {};
  const int64_t n = x.dims.back(), rows = x.numel() / n;
  const bool empty_rows_zero = a.attrs().i("empty_rows_zero", 0) != 0;
  return [=] {
    parallel_ranges(rows, 8192 / n + 1, [&](int64_t b, int64_t e) {
      T* const s0 = thread_scratch<T>(n, 0);
      T* const s1 = thread_scratch<T>(n, 1);
      for (int64_t r = b; r < e; ++r) {
        const T* p = load_row(x, r, n, s0);
        T* q = row_buffer(y, r, n, s1);
        simd([&]() AMP_INLINE {
          const T top = row_max(p, n);
          if (empty_rows_zero && top == -std::numeric_limits<T>::infinity()) {
            std::fill_n(q, n, T(0));
          } else if (log) {
            const T sum = lane_sum<T>(n, [&](int64_t i) AMP_INLINE { return math::exp(p[i] - top); });
            // Subtracts in this order, because top + log_sum would round log_sum away if top is large.
            const T log_sum = static_cast<T>(std::log(sum));
            for (int64_t i = 0; i < n; ++i) q[i] = (p[i] - top) - log_sum;
          } else {
            for (int64_t i = 0; i < n; ++i) q[i] = math::exp(p[i] - top);
            const T scale = T(1) / lane_sum<T>(n, [&](int64_t i) AMP_INLINE { return q[i]; });
            for (int64_t i = 0; i < n; ++i) q[i] *= scale;
          }
        });
        store_row(q, y, r, n);
      }
    });
  };
}

// Returns whether a row is NaN and its dy is 0.
template <class T>
bool guarded(const T* y, const T* dy, int64_t n) {
  return y[0] != y[0] && std::all_of(dy, dy + n, [](T d) { return d == T(0); });
}

// Softmax: dx = y (dy - sum(y dy)). LogSoftmax: dx = dy - e^y sum(dy).
template <class T>
Kernel softmax_grad_rows(const KernelArgs& a, bool log) {
  const Tensor y = a.in[0], dy = a.in[1], dx = a.out[0];
  if (y.numel() == 0) return [] {};
  const int64_t n = y.dims.back(), rows = y.numel() / n;
  return [=] {
    parallel_ranges(rows, 8192 / n + 1, [&](int64_t b, int64_t e) {
      T* const s0 = thread_scratch<T>(n, 0);
      T* const s1 = thread_scratch<T>(n, 1);
      T* const s2 = thread_scratch<T>(n, 2);
      for (int64_t r = b; r < e; ++r) {
        const T* p = load_row(y, r, n, s0);
        const T* d = load_row(dy, r, n, s1);
        T* q = row_buffer(dx, r, n, s2);
        if (guarded(p, d, n)) {
          std::fill_n(q, n, T(0));
          store_row(q, dx, r, n);
          continue;
        }
        simd([&]() AMP_INLINE {
          if (log) {
            const T sum = lane_sum<T>(n, [&](int64_t i) AMP_INLINE { return d[i]; });
            for (int64_t i = 0; i < n; ++i) q[i] = d[i] - math::exp(p[i]) * sum;
          } else {
            const T sum = lane_sum<T>(n, [&](int64_t i) AMP_INLINE { return p[i] * d[i]; });
            for (int64_t i = 0; i < n; ++i) q[i] = p[i] * (d[i] - sum);
          }
        });
        store_row(q, dx, r, n);
      }
    });
  };
}

template <bool Log>
Kernel forward(const KernelArgs& a) {
  return in_double(a) ? softmax_rows<double>(a, Log) : softmax_rows<float>(a, Log);
}
template <bool Log>
Kernel backward(const KernelArgs& a) {
  return in_double(a) ? softmax_grad_rows<double>(a, Log) : softmax_grad_rows<float>(a, Log);
}

void grad(GradBuilder& g) { g.add_grad(0, g.op(g.node().op->name + "Grad", {g.out(0), g.dy(0)})); }

// Operands of the decomposed gradients. y is replaced by 0 where y is NaN and dy is 0 (`silent`).
struct GradOperands {
  GradOperands(Builder& b, const std::vector<ValueId>& in) : y(b, in[0]), dy(b, in[1]) {
    const Term silent = both(y.to("IsNaN"), dy == 0);
    y = where(silent, y.like(0), y);
    total = {static_cast<int64_t>(y.dims().size()) - 1};
  }
  Term y, dy;
  std::vector<int64_t> total;
};
std::vector<ValueId> decompose_softmax(Builder& b, const std::vector<ValueId>& in, const Attrs&) {
  const GradOperands a(b, in);
  return {a.y * (a.dy - (a.y * a.dy).sum(a.total))};
}
std::vector<ValueId> decompose_log_softmax(Builder& b, const std::vector<ValueId>& in, const Attrs&) {
  const GradOperands a(b, in);
  return {a.dy - a.y.to("Exp") * a.dy.sum(a.total)};
}

OpDef def(const char* name, Gradient gradient, Decomposition decomposition = nullptr) {
  OpDef d;
  d.name = name;
  d.decomposition = decomposition;
  d.infer = infer_same;
  d.gradient = gradient;
  d.may_overwrite = true;
  return d;
}
const RegisterOp ops_[] = {RegisterOp{def("Softmax", grad)}, RegisterOp{def("SoftmaxGrad", nullptr, decompose_softmax)},
                           RegisterOp{def("LogSoftmax", grad)},
                           RegisterOp{def("LogSoftmaxGrad", nullptr, decompose_log_softmax)}};
const RegisterKernel kernels_[] = {{DeviceKind::cpu, "Softmax", forward<false>},
                                   {DeviceKind::cpu, "SoftmaxGrad", backward<false>},
                                   {DeviceKind::cpu, "LogSoftmax", forward<true>},
                                   {DeviceKind::cpu, "LogSoftmaxGrad", backward<true>}};

void lower_softmax(Lowering& l) {
  Builder& b = l.b;
  const int64_t rank = l.rank(0);
  const Dims dims = l.dims(0);
  if (rank == 0) return l.out(0, b.reshape(b.op(l.node.op, {b.reshape(l.in(0), {1})}), {}));
  const int64_t axis = normalize_axis(l.attrs.i("axis", l.version() < 13 ? 1 : -1), rank);
  if (l.version() < 13) {
    int64_t cols = 1;
    for (int64_t d = axis; d < rank; ++d) cols *= dims[static_cast<size_t>(d)];
    return l.out(0, b.reshape(b.op(l.node.op, {b.reshape(l.in(0), {cols ? numel(dims) / cols : 0, cols})}), dims));
  }
  std::vector<int64_t> perm(static_cast<size_t>(rank));
  std::iota(perm.begin(), perm.end(), int64_t{0});
  std::swap(perm[static_cast<size_t>(axis)], perm.back());
  l.out(0, b.transpose(b.op(l.node.op, {b.transpose(l.in(0), perm)}), perm));
}
const RegisterOnnx onnx[] = {RegisterOnnx{{"Softmax", lower_softmax, 1, {}}},
                             RegisterOnnx{{"LogSoftmax", lower_softmax, 1, {}}}};

}  // namespace
}  // namespace amp
