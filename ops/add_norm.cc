// AddNorm and AddNormGrad (ops/add_norm.h) on the CPU. Each row is read once; intermediate results stay in cache.
// Intermediate results are rounded to the types in which separate nodes would store them, so fused and unfused graphs
// give the same bits.
#include "ops/add_norm.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "backend/rows.h"
#include "ops/elementwise_op.h"

namespace amp {
namespace {

DType statistic_type(DType t) { return t == DType::f64 ? DType::f64 : DType::f32; }

void infer(InferCtx& c) {
  const Value& s = c.in(1);
  const int64_t n = c.attrs.i("n", 1);
  if (c.attrs.i("y", 1) != 0) c.out(s.dtype, s.dims);
  c.out(s.dtype, s.dims);
  c.out(statistic_type(s.dtype), {numel(s.dims) / n});
  c.out(statistic_type(s.dtype), {numel(s.dims) / n});
  if (const auto t = type_attribute(c.attrs, "copy")) c.out(*t, s.dims);
}
void infer_grad(InferCtx& c) {
  const Value& s = c.in(0);
  c.out(s.dtype, s.dims);
  if (c.attrs.f("ratio", 0) > 0) c.out(s.dtype, s.dims);
  if (const auto t = type_attribute(c.attrs, "copy")) c.out(*t, s.dims);
}

void infer_grad_sums(InferCtx& c) {
  infer_grad(c);
  const int64_t n = c.attrs.i("n", 1);
  for (int k = 0; k < (c.attrs.has("summed") ? 3 : 2); ++k) c.out(c.in(2).dtype, {n});
}

// `count` consecutive buffers in the thread's scratch memory, each for a row of n elements.
template <class T>
class Rows {
 public:
  Rows(int64_t n, int count) : n_(n), base_(thread_scratch<T>(n * count, 0)) {}
  T* operator[](int i) const { return base_ + i * n_; }

 private:
  int64_t n_;
  T* base_;
};

template <class T>
void round_row(T* v, int64_t n, std::optional<DType> t) {
  if (!t || !is_low(*t)) return;
  uint16_t stored[256];
  for (int64_t i = 0; i < n; i += 256) {
    const int64_t m = std::min<int64_t>(256, n - i);
    convert(DTypeOf<T>::value, v + i, *t, stored, m);
    convert(*t, stored, DTypeOf<T>::value, v + i, m);
  }
}

// Applies dropout to a row of n elements.
template <class T>
struct Drop {
  DropoutBits bits;
  const RunState* state = nullptr;
  int64_t per_sample = 1;
  const int64_t* tokens = nullptr;  // token index of each row; null: the row's index
  Drop(const KernelArgs& a, int64_t elements, size_t tokens_in)
      : bits(dropout_bits(a.attrs())),
        state(a.state),
        per_sample(std::max<int64_t>(1, elements_per_sample(a.attrs(), elements))),
        tokens(a.has(tokens_in) ? a.in[tokens_in].as<int64_t>() : nullptr) {}
  void operator()(int64_t row, int64_t n, const T* x, T* y, T* factor) const {
    const int64_t at = (tokens ? tokens[row] : row) * n;
    for (int64_t i = 0; i < n;) {
      const int64_t sample = (at + i) / per_sample, first = at + i - sample * per_sample,
                    m = std::min(n - i, per_sample - first);
      dropout_factors(bits, *state, sample, first, m, factor + i);
      i += m;
    }
    simd([&]() AMP_INLINE {
      for (int64_t i = 0; i < n; ++i) y[i] = factor[i] == T(0) ? T(0) : x[i] * factor[i];
    });
  }
};

void copy_row(const Tensor& from, const Tensor& to, int64_t r, int64_t n) {
  convert(from.dtype, static_cast<const char*>(from.data) + r * n * size_of(from.dtype), to.dtype,
          static_cast<char*>(to.data) + r * n * size_of(to.dtype), n);
}

// Recomputes x as the norm of input 1, from inputs 6 to 9 (ops/add_norm.h). Without these inputs `mean` is null.
template <class T>
struct RecomputedNorm {
  const T *mean = nullptr, *rstd = nullptr;
  Tensor scale, bias;
  explicit RecomputedNorm(const KernelArgs& a) {
    if (!a.has(6)) return;
    mean = a.in[6].as<T>();
    rstd = a.in[7].as<T>();
    scale = a.in[8];
    if (a.has(9)) bias = a.in[9];
  }
  const T* operator()(int64_t row, int64_t n, const T* s, T* to) const {
    const T* f = load_row(scale, 0, n, thread_scratch<T>(n, 1));
    const T* c = bias.data ? load_row(bias, 0, n, thread_scratch<T>(n, 2)) : nullptr;
    for (int64_t i = 0; i < n; ++i) to[i] = (s[i] - mean[row]) * rstd[row] * f[i] + (c ? c[i] : T(0));
    return to;
  }
};

// Stores q as row r of y and of `copy`, which has another type. Either tensor may be absent.
template <class T>
void store_both(const T* q, const Tensor& y, const Tensor& copy, int64_t r, int64_t n) {
  if (y.data) store_row(q, y, r, n);
  if (copy.data && y.data) copy_row(y, copy, r, n);
  if (copy.data && !y.data) store_row(q, copy, r, n);
}

template <class T>
Kernel forward(const KernelArgs& args) {
  const Tensor a = args.in[0], x = args.in[1], scale = args.in[2], bias = args.has(3) ? args.in[3] : Tensor{},
               b = args.has(4) ? args.in[4] : Tensor{};
  const AddNormOutputs out(args);
  const Tensor y = out.y, sum = out.s, copy = out.copy;
  T* const mean = out.mean.as<T>();
  T* const rstd = out.rstd.as<T>();
  const RecomputedNorm<T> recomputed(args);
  const Attrs& attrs = args.attrs();
  const int64_t n = attrs.i("n", 1), rows = x.numel() / n;
  const bool rms = attrs.i("rms", 0) != 0;
  const T eps = static_cast<T>(attrs.f("epsilon", 1e-5));
  const Drop<T> drop(args, x.numel(), 5);
  return [=, round_sum = type_attribute(attrs, "sum"), round_dropped = type_attribute(attrs, "dropped")] {
    parallel_ranges(rows, 8192 / n + 1, [&](int64_t begin, int64_t end) {
      const Rows<T> at(n, 9);
      const T* w = load_row(scale, 0, n, at[0]);
      const T* c = bias.data ? load_row(bias, 0, n, at[1]) : nullptr;
      const T* added = b.data ? load_row(b, 0, n, at[2]) : nullptr;
      for (int64_t r = begin; r < end; ++r) {
        const T* t = load_row(a, r, n, at[3]);
        const T* u = load_row(x, r, n, at[4]);
        if (recomputed.mean) u = recomputed(r, n, u, at[8]);
        T* const v = at[5];
        if (added) {
          simd([&]() AMP_INLINE {
            for (int64_t i = 0; i < n; ++i) v[i] = t[i] + added[i];
          });
          round_row(v, n, round_sum);
          t = v;
        }
        if (drop.bits) {
          drop(r, n, t, v, at[6]);
          round_row(v, n, round_dropped);
          t = v;
        }
        simd([&]() AMP_INLINE {
          for (int64_t i = 0; i < n; ++i) v[i] = t[i] + u[i];
        });
        round_row(v, n, sum.dtype);
        convert(DTypeOf<T>::value, v, sum.dtype, static_cast<char*>(sum.data) + r * n * size_of(sum.dtype), n);
        T* q = y.data ? row_buffer(y, r, n, at[7]) : at[7];
        simd([&]() AMP_INLINE {
          const T m = rms ? T(0) : lane_sum<T>(n, [&](int64_t i) AMP_INLINE { return v[i]; }) / static_cast<T>(n);
          const T var =
              lane_sum<T>(n, [&](int64_t i) AMP_INLINE { return (v[i] - m) * (v[i] - m); }) / static_cast<T>(n);
          const T s = T(1) / std::sqrt(var + eps);
          mean[r] = m;
          rstd[r] = s;
          if (c) {
            for (int64_t i = 0; i < n; ++i) q[i] = (v[i] - m) * s * w[i] + c[i];
          } else {
            for (int64_t i = 0; i < n; ++i) q[i] = (v[i] - m) * s * w[i];
          }
        });
        store_both(q, y, copy, r, n);
      }
    });
  };
}

template <class T>
Kernel backward(const KernelArgs& args) {
  const Tensor s = args.in[0], scale = args.in[1], dy = args.in[4], more = args.has(5) ? args.in[5] : Tensor{},
               dy_more = args.has(7) ? args.in[7] : Tensor{};
  const T* const mean = args.in[2].as<T>();
  const T* const rstd = args.in[3].as<T>();
  const Attrs& attrs = args.attrs();
  const int64_t n = attrs.i("n", 1), rows = s.numel() / n;
  const bool rms = attrs.i("rms", 0) != 0;
  const Drop<T> drop(args, s.numel(), 6);
  const bool drops = attrs.f("ratio", 0) > 0;
  const Tensor ds = args.out[0], da = drops ? args.out[1] : Tensor{};
  const Tensor copy = attrs.has("copy") ? args.out[drops ? 2 : 1] : Tensor{};
  return [=, round_norm = type_attribute(attrs, "norm")] {
    parallel_ranges(rows, 8192 / n + 1, [&](int64_t begin, int64_t end) {
      const Rows<T> at(n, 8);
      const T* w = load_row(scale, 0, n, at[0]);
      for (int64_t r = begin; r < end; ++r) {
        const T* p = load_row(s, r, n, at[1]);
        const T* d = load_row(dy, r, n, at[2]);
        if (dy_more.data) {
          const T* e = load_row(dy_more, r, n, at[4]);
          std::transform(d, d + n, e, at[5], std::plus<T>());
          d = at[5];
        }
        T* const q = at[3];
        const T m = mean[r], k = rstd[r];
        simd([&]() AMP_INLINE {
          const T avg =
              rms ? T(0) : lane_sum<T>(n, [&](int64_t i) AMP_INLINE { return d[i] * w[i]; }) / static_cast<T>(n);
          const T dot =
              lane_sum<T>(n, [&](int64_t i) AMP_INLINE { return d[i] * w[i] * (p[i] - m); }) * k / static_cast<T>(n);
          for (int64_t i = 0; i < n; ++i) q[i] = k * (d[i] * w[i] - avg - (p[i] - m) * k * dot);
        });
        if (more.data) {
          round_row(q, n, round_norm);
          const T* u = load_row(more, r, n, at[4]);
          simd([&]() AMP_INLINE {
            for (int64_t i = 0; i < n; ++i) q[i] += u[i];
          });
        }
        convert(DTypeOf<T>::value, q, ds.dtype, static_cast<char*>(ds.data) + r * n * size_of(ds.dtype), n);
        if (drops) {
          const T* stored = load_row(ds, r, n, at[5]);
          drop(r, n, stored, at[6], at[7]);
          convert(DTypeOf<T>::value, at[6], da.dtype, static_cast<char*>(da.data) + r * n * size_of(da.dtype), n);
        }
        if (copy.data) copy_row(drops ? da : ds, copy, r, n);
      }
    });
  };
}

Kernel forward_kernel(const KernelArgs& a) { return in_double(a) ? forward<double>(a) : forward<float>(a); }
Kernel backward_kernel(const KernelArgs& a) { return in_double(a) ? backward<double>(a) : backward<float>(a); }

template <bool accumulate>
Kernel backward_and_sums(const KernelArgs& a) {
  const AddNormSums parts(a.attrs(), a.out.size());
  const PrepareKernel sums = find_kernel(DeviceKind::cpu, accumulate ? "NormSums+=" : "NormSums");
  return [grad = backward_kernel(a), sum = sums(norm_sums_args(a, parts))] {
    grad();
    sum();
  };
}

OpDef def(const char* name, void (*infer)(InferCtx&), size_t inputs) {
  OpDef d;
  d.name = name;
  d.infer = infer;
  d.min_inputs = inputs;
  return d;
}
const RegisterOp ops_[] = {RegisterOp{def("AddNorm", infer, 3)}, RegisterOp{def("AddNormGrad", infer_grad, 5)},
                           RegisterOp{def("AddNormGradSums", infer_grad_sums, 5)}};
const RegisterKernel kernels_[] = {{DeviceKind::cpu, "AddNorm", forward_kernel},
                                   {DeviceKind::cpu, "AddNormGrad", backward_kernel},
                                   {DeviceKind::cpu, "AddNormGradSums", backward_and_sums<false>},
                                   {DeviceKind::cpu, "AddNormGradSums+=", backward_and_sums<true>}};

}  // namespace
}  // namespace amp
