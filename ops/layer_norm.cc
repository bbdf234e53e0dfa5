// LayerNormalization (ONNX 17), RMSNormalization (23), com.microsoft SimplifiedLayerNormalization.
//   y = (x - mean) * rstd * scale + bias,  rstd = 1 / sqrt(var + epsilon);  in the RMS form, mean is 0.
//   With g = dy * scale, h = (x - mean) * rstd:  dx = rstd (g - avg(g) - h avg(g h)),  dscale = sum dy h,
//   dbias = sum dy.
// x is (rows, n), where n is the product of the normalized dims. Statistics are fp64 if x is fp64, otherwise fp32.
#include <cmath>

#include "backend/rows.h"
#include "ops/elementwise_op.h"
#include "ops/term.h"

namespace amp {
namespace {

// The operator LayerNorm. Inputs: x, scale (n), bias (n, optional). Outputs: y, mean (rows), rstd (rows). Attributes:
// n, epsilon, rms.
void infer_norm(InferCtx& c) {
  const int64_t n = c.attrs.i("n", 1);
  const DType stat = c.in(0).dtype == DType::f64 ? DType::f64 : DType::f32;
  c.out(c.in(0).dtype, c.in(0).dims);
  c.out(stat, {numel(c.in(0).dims) / n});
  c.out(stat, {numel(c.in(0).dims) / n});
}

template <class T>
Kernel norm_forward(const KernelArgs& a) {
  const Tensor x = a.in[0], scale = a.in[1], bias = a.has(2) ? a.in[2] : Tensor{}, y = a.out[0];
  T* const mean = a.out[1].as<T>();
  T* const rstd = a.out[2].as<T>();
  const int64_t n = a.attrs().i("n", 1), rows = x.numel() / n;
  const bool rms = a.attrs().i("rms", 0) != 0;
  const T eps = static_cast<T>(a.attrs().f("epsilon", 1e-5));
  return [=] {
    parallel_ranges(rows, 8192 / n + 1, [&](int64_t b, int64_t e) {
      T* const s0 = thread_scratch<T>(n, 0);
      T* const s1 = thread_scratch<T>(n, 1);
      const T* w = load_row(scale, 0, n, thread_scratch<T>(n, 2));
      const T* c = bias.data ? load_row(bias, 0, n, thread_scratch<T>(n, 3)) : nullptr;
      for (int64_t r = b; r < e; ++r) {
        const T* p = load_row(x, r, n, s0);
        T* q = row_buffer(y, r, n, s1);
        simd([&]() AMP_INLINE {
          const T m = rms ? T(0) : lane_sum<T>(n, [&](int64_t i) AMP_INLINE { return p[i]; }) / static_cast<T>(n);
          const T var =
              lane_sum<T>(n, [&](int64_t i) AMP_INLINE { return (p[i] - m) * (p[i] - m); }) / static_cast<T>(n);
          const T s = T(1) / std::sqrt(var + eps);
          mean[r] = m;
          rstd[r] = s;
          if (c) {
            for (int64_t i = 0; i < n; ++i) q[i] = (p[i] - m) * s * w[i] + c[i];
          } else {
            for (int64_t i = 0; i < n; ++i) q[i] = (p[i] - m) * s * w[i];
          }
        });
        store_row(q, y, r, n);
      }
    });
  };
}

// The kernel of LayerNormGrad. Inputs: x, scale, mean, rstd, dy. Output: dx.
template <class T>
Kernel norm_backward_x(const KernelArgs& a) {
  const Tensor x = a.in[0], scale = a.in[1], dy = a.in[4], dx = a.out[0];
  const T* const mean = a.in[2].as<T>();
  const T* const rstd = a.in[3].as<T>();
  const int64_t n = a.attrs().i("n", 1), rows = x.numel() / n;
  const bool rms = a.attrs().i("rms", 0) != 0;
  return [=] {
    parallel_ranges(rows, 8192 / n + 1, [&](int64_t b, int64_t e) {
      T* const s0 = thread_scratch<T>(n, 0);
      T* const s1 = thread_scratch<T>(n, 1);
      T* const s2 = thread_scratch<T>(n, 2);
      const T* w = load_row(scale, 0, n, thread_scratch<T>(n, 3));
      for (int64_t r = b; r < e; ++r) {
        const T* p = load_row(x, r, n, s0);
        const T* d = load_row(dy, r, n, s1);
        T* q = row_buffer(dx, r, n, s2);
        const T m = mean[r], s = rstd[r];
        simd([&]() AMP_INLINE {
          const T avg =
              rms ? T(0) : lane_sum<T>(n, [&](int64_t i) AMP_INLINE { return d[i] * w[i]; }) / static_cast<T>(n);
          const T dot =
              lane_sum<T>(n, [&](int64_t i) AMP_INLINE { return d[i] * w[i] * (p[i] - m); }) * s / static_cast<T>(n);
          for (int64_t i = 0; i < n; ++i) q[i] = s * (d[i] * w[i] - avg - (p[i] - m) * s * dot);
        });
        store_row(q, dx, r, n);
      }
    });
  };
}

// The operator LayerNormGradWeights. Inputs: x, mean, rstd, dy. Outputs: dscale (n), dbias (n). Rows are summed in 16
// shards (ranges of rows); then the sums of the shards are added in order.
constexpr int64_t kShards = 16;
int64_t weights_workspace(const Graph& g, const Node& node) {
  return kShards * 2 * node.attrs.i("n", 1) * (g.value(node.in[0]).dtype == DType::f64 ? 8 : 4);
}
template <class T, bool add>
Kernel norm_backward_weights(const KernelArgs& a) {
  const Tensor x = a.in[0], dy = a.in[3], dscale = a.out[0], dbias = a.out[1];
  const T* const mean = a.in[1].as<T>();
  const T* const rstd = a.in[2].as<T>();
  const int64_t n = a.attrs().i("n", 1), rows = x.numel() / n;
  T* const partial = static_cast<T*>(a.workspace);
  const int64_t step = std::max<int64_t>(16, (rows + kShards - 1) / kShards);
  const int64_t shards = (rows + step - 1) / step;
  return [=] {
    parallel_for(shards, [&](int64_t shard) {
      T* const ds = partial + shard * 2 * n;
      T* const db = ds + n;
      std::fill(ds, ds + 2 * n, T(0));
      T* const s0 = thread_scratch<T>(n, 0);
      T* const s1 = thread_scratch<T>(n, 1);
      for (int64_t r = shard * step; r < std::min(rows, (shard + 1) * step); ++r) {
        const T* p = load_row(x, r, n, s0);
        const T* d = load_row(dy, r, n, s1);
        const T m = mean[r], s = rstd[r];
        simd([&]() AMP_INLINE {
          for (int64_t i = 0; i < n; ++i) {
            ds[i] += d[i] * (p[i] - m) * s;
            db[i] += d[i];
          }
        });
      }
    });
    for (int64_t shard = 1; shard < shards; ++shard) {
      for (int64_t i = 0; i < 2 * n; ++i) partial[i] += partial[shard * 2 * n + i];
    }
    if (shards == 0) std::fill(partial, partial + 2 * n, T(0));
    if constexpr (add) {
      for (int64_t i = 0; i < n; ++i) dscale.as<T>()[i] += partial[i];
      for (int64_t i = 0; i < n; ++i) dbias.as<T>()[i] += partial[n + i];
    } else {
      convert(DTypeOf<T>::value, partial, dscale.dtype, dscale.data, n);
      convert(DTypeOf<T>::value, partial + n, dbias.dtype, dbias.data, n);
    }
  };
}

void infer_backward_x(InferCtx& c) { c.out(c.in(0).dtype, c.in(0).dims); }
void infer_backward_weights(InferCtx& c) {
  c.out(c.in(1).dtype, {c.attrs.i("n", 1)});
  c.out(c.in(1).dtype, {c.attrs.i("n", 1)});
}

void grad_norm(GradBuilder& g) {
  if (g.has_dy(1) || g.has_dy(2))
    fail(Exit::unsupported, "E_NO_GRAD", "the mean and deviation that LayerNorm gives out have no gradient");
  if (g.needs(0)) g.add_grad(0, g.op("LayerNormGrad", {g.in(0), g.in(1), g.out(1), g.out(2), g.dy(0)}, g.attrs()));
  if (g.needs(1) || g.needs(2)) {
    const auto d = g.b.ops("LayerNormGradWeights", {g.in(0), g.out(1), g.out(2), g.dy(0)}, g.attrs());
    g.add_grad(1, d[0]);
    if (g.n_in() > 2) g.add_grad(2, d[1]);
  }
}

Kernel forward(const KernelArgs& a) { return in_double(a) ? norm_forward<double>(a) : norm_forward<float>(a); }
Kernel backward_x(const KernelArgs& a) { return in_double(a) ? norm_backward_x<double>(a) : norm_backward_x<float>(a); }
template <bool add>
Kernel backward_weights(const KernelArgs& a) {
  return in_double(a) ? norm_backward_weights<double, add>(a) : norm_backward_weights<float, add>(a);
}

// The decompositions of the gradients compute mean and rstd from x again, because second derivatives must include how
// mean and rstd depend on x.
struct Rows {
  Rows(Builder& b, ValueId input, ValueId upstream, const Attrs& a) : Rows(b, input, upstream, a, a.i("n", 1)) {}
  Rows(Builder& b, ValueId input, ValueId upstream, const Attrs& a, int64_t n)
      : dims{numel(b.dims(input)) / n, n}, dy(Term(b, upstream).shaped(dims)), h(Term(b, input).shaped(dims)), rstd(h) {
    if (a.i("rms", 0) == 0) h = h - h.mean({1});
    rstd = ((h * h).mean({1}) + a.f("epsilon", 1e-5)).to("Sqrt").to("Reciprocal");
    h = h * rstd;
  }
  Dims dims;
  Term dy, h, rstd;
};
std::vector<ValueId> decompose_grad(Builder& b, const std::vector<ValueId>& in, const Attrs& a) {
  const Rows r(b, in[0], in[4], a);
  const Term g = r.dy * Term(b, in[1]), along = r.h * (g * r.h).mean({1});
  const Term rest = a.i("rms", 0) != 0 ? g - along : g - g.mean({1}) - along;
  return {(r.rstd * rest).shaped(b.dims(in[0]))};
}
std::vector<ValueId> decompose_grad_weights(Builder& b, const std::vector<ValueId>& in, const Attrs& a) {
  const Rows r(b, in[0], in[3], a);
  const auto column = [&](Term t) { return b.cast(b.reduce_sum(t, {0}, false), b.dtype(in[1])); };
  return {column(r.dy * r.h), column(r.dy)};
}

OpDef def(const char* name, void (*infer)(InferCtx&), Gradient gradient, Decomposition decomposition = nullptr,
          int64_t (*workspace)(const Graph&, const Node&) = nullptr) {
  OpDef d;
  d.decomposition = decomposition;
  d.name = name;
  d.infer = infer;
  d.gradient = gradient;
  d.workspace = workspace;
  return d;
}
const RegisterOp ops_[] = {RegisterOp{def("LayerNorm", infer_norm, grad_norm)},
                           RegisterOp{def("LayerNormGrad", infer_backward_x, nullptr, decompose_grad)},
                           RegisterOp{def("LayerNormGradWeights", infer_backward_weights, nullptr,
                                          decompose_grad_weights, weights_workspace)}};
const RegisterKernel kernels_[] = {{DeviceKind::cpu, "LayerNorm", forward},
                                   {DeviceKind::cpu, "LayerNormGrad", backward_x},
                                   {DeviceKind::cpu, "LayerNormGradWeights", backward_weights<false>},
                                   {DeviceKind::cpu, "LayerNormGradWeights+=", backward_weights<true>}};

void lower_norm(Lowering& l, bool rms) {
  Builder& b = l.b;
  const int64_t axis = normalize_axis(l.attrs.i("axis", -1), l.rank(0));
  const Dims dims = l.dims(0);
  int64_t n = 1;
  Dims tail;
  for (int64_t d = axis; d < l.rank(0); ++d) {
    tail.push_back(dims[static_cast<size_t>(d)]);
    n *= tail.back();
  }
  Dims stat = dims;
  for (int64_t d = axis; d < l.rank(0); ++d) stat[static_cast<size_t>(d)] = 1;
  if (n == 0) {  // without elements there is nothing to normalize
    const DType t = b.dtype(l.in(0));
    l.out(0, l.in(0));
    for (size_t i = 1; i < 3; ++i) {
      if (l.wanted(i)) l.out(i, b.expand(b.scalar(std::nan(""), t), stat));
    }
    return;
  }
  std::vector<ValueId> in{l.in(0), b.reshape(b.expand(l.in(1), broadcast(tail, l.dims(1))), {n})};
  if (!rms && l.has(2)) in.push_back(b.reshape(b.expand(l.in(2), broadcast(tail, l.dims(2))), {n}));
  const auto out = b.ops("LayerNorm", in, {{"n", n}, {"epsilon", l.attrs.f("epsilon", 1e-5)}, {"rms", int64_t{rms}}});
  l.out(0, out[0]);
  if (l.wanted(1)) l.out(1, b.reshape(out[rms ? 2 : 1], stat));
  if (l.wanted(2)) l.out(2, b.reshape(out[2], stat));
}
void lower_layer_norm(Lowering& l) { lower_norm(l, false); }
void lower_rms_norm(Lowering& l) { lower_norm(l, true); }
// LayerNormalization was introduced in opset 17, but some opset 12 files contain it, and other inference engines accept
// such files. So it is registered from opset 1 on.
const RegisterOnnx onnx[] = {RegisterOnnx{{"LayerNormalization", lower_layer_norm, 1, {}}},
                             RegisterOnnx{{"RMSNormalization", lower_rms_norm, 23, {}}},
                             RegisterOnnx{{"SimplifiedLayerNormalization", lower_rms_norm, 1, {}}},
                             RegisterOnnx{{"LayerNormalization", lower_layer_norm, 1, "com.microsoft"}},
                             RegisterOnnx{{"SimplifiedLayerNormalization", lower_rms_norm, 1, "com.microsoft"}}};

}  // namespace
}  // namespace amp
