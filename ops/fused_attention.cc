// FusedAttention, FusedAttentionGrad (ops/fused_attention.h): inference, gradient, and the CPU kernels: a head's scores
// fit the cache, a block of rows at a time.
#include "ops/fused_attention.h"

#include <cmath>
#include <limits>

#include "backend/node_work.h"
#include "ops/attention_definition.h"
#include "ops/attention_heads.h"
#include "ops/elementwise_op.h"

namespace amp {

using namespace attention_detail;

namespace {

void infer_attention(InferCtx& c) {
  const auto dims = [&](size_t i) { return i < c.n_in() && c.inputs[i] ? c.in(i).dims : Dims{}; };
  const AttentionForm f = attention_form(c.attrs, c.in(0).dims, dims(1), dims(2), dims(3), dims(4));
  const DType t = c.in(0).dtype;
  if (f.heads_first)
    c.out(t, {f.batch, f.heads, f.queries, f.value_width});
  else
    c.out(t, {f.batch, f.queries, f.heads, f.value_width});
  c.out(t == DType::f64 ? DType::f64 : DType::f32, {f.batch, f.heads, f.queries});
}
void infer_attention_grad(InferCtx& c) {
  const size_t n = c.attrs.i("packed", 0) != 0 ? 1 : 3;
  for (size_t i = 0; i < n; ++i) c.out(c.in(i).dtype, c.in(i).dims);
}

void grad_attention(GradBuilder& g) {
  if (g.n_in() > 3 && g.in(3) && g.needs(3))
    fail(Exit::unsupported, "E_GRADIENT", "fused attention has no gradient of its mask");
  const auto in = [&](size_t i) { return i < g.n_in() ? g.in(i) : ValueId{}; };
  const std::vector<ValueId> d =
      g.b.ops("FusedAttentionGrad", {in(0), in(1), in(2), in(3), in(4), g.out(0), g.out(1), g.dy(0)}, g.attrs());
  for (size_t i = 0; i < d.size(); ++i) {
    if (g.needs(i)) g.add_grad(i, d[i]);
  }
}

template <class T>
class Forward : Heads<T> {
  using Base = Heads<T>;
  using Base::f_, Base::x_;
  using typename Base::Unit;

 public:
  Forward(const KernelArgs& a, const Images<T>& x) : Base(a, x), y_(x.out[0]), lse_(x.out[1].template as<T>()) {}
  void operator()() const {
    x_.load();
    parallel_ranges(f_.units(), 1, [&](int64_t b, int64_t e) {
      for (int64_t u = b; u < e; ++u) head(Base::unit(u));
    });
    Base::clear_tail(y_, f_.y, f_.value_width);
    for (int64_t n = 0; n < f_.heads && f_.sequences; ++n)
      std::fill(lse_ + n * f_.queries + Base::tail(), lse_ + (n + 1) * f_.queries, static_cast<T>(kInf));
    x_.store();
  }

 private:
  void head(const Unit& u) const {
    const int64_t cells = Base::largest_block();
    T* const z = thread_scratch<T>(2 * cells + 2 * u.keys, 0);
    T* const image = z + cells;
    T* const row = image + cells;
    for (int64_t i0 = 0; i0 < u.queries; i0 += Base::block_) {
      const int64_t n = std::min(Base::block_, u.queries - i0);
      Base::scores(u, i0, n, z, row, nullptr);
      for (int64_t i = 0; i < n; ++i) {
        lse_[Base::lse_at(u, i0 + i)] = softmax(z + i * u.keys, u.keys);
        if (!f_.dropout) continue;
        Base::factors(u, i0 + i, row);
        T* p = z + i * u.keys;
        simd([&]() AMP_INLINE {
          for (int64_t j = 0; j < u.keys; ++j) p[j] = row[j] == T(0) ? T(0) : p[j] * row[j];
        });
      }
      multiply<T>(false, false, n, f_.value_width, u.keys, 1, Base::as_operand(z, n * u.keys, u.keys, image),
                  Base::at(Base::v_, f_.v, u, 0), Base::at(y_, f_.y, u, i0));
    }
  }
  // In place; returns the logarithm of the sum.
  T softmax(T* p, int64_t n) const {
    if (n == 0) return static_cast<T>(-kInf);
    T lse = 0;
    simd([&]() AMP_INLINE {
      const T top = row_max(p, n);
      for (int64_t j = 0; j < n; ++j) p[j] = math::exp(p[j] - top);
      const T sum = lane_sum<T>(n, [&](int64_t j) AMP_INLINE { return p[j]; }), scale = T(1) / sum;
      for (int64_t j = 0; j < n; ++j) p[j] *= scale;
      lse = top == static_cast<T>(-kInf) ? top : top + static_cast<T>(std::log(sum));
    });
    if (lse != static_cast<T>(-kInf)) return lse;
    if (!f_.empty_rows_zero) return std::numeric_limits<T>::quiet_NaN();
    std::fill_n(p, n, T(0));
    return static_cast<T>(kInf);
  }

  Tensor y_;
  T* lse_;
};

template <class T>
class Backward : Heads<T> {
  using Base = Heads<T>;
  using Base::f_, Base::x_;
  using typename Base::Unit;

 public:
  Backward(const KernelArgs& a, const Images<T>& x)
      : Base(a, x),
        y_(x.in[5]),
        dy_(x.in[7]),
        dq_(x.out[0]),
        dk_(f_.packed ? dq_ : x.out[1]),
        dv_(f_.packed ? dq_ : x.out[2]),
        lse_(x.in[6].template as<T>()) {}
  void operator()() const {
    x_.load();
    parallel_ranges(f_.units(), 1, [&](int64_t b, int64_t e) {
      for (int64_t u = b; u < e; ++u) head(Base::unit(u));
    });
    Base::clear_tail(dq_, f_.q, f_.width);
    Base::clear_tail(dk_, f_.k, f_.width);
    Base::clear_tail(dv_, f_.v, f_.value_width);
    x_.store();
  }

 private:
  void head(const Unit& u) const {
    const int64_t cells = Base::largest_block(), wide = std::max(f_.width, f_.value_width),
                  part = f_.longest_key() * wide;
    const bool hides = Base::mask_.data && Base::mask_.dtype == DType::boolean, sums = u.queries > Base::block_;
    T* at = thread_scratch<T>(5 * cells + 2 * u.keys + 2 * wide + 3 * part, 0);
    const auto take = [&](int64_t n) { return std::exchange(at, at + n); };
    T *const p = take(cells), *const g = take(cells), *const p_image = take(cells), *const g_image = take(cells),
             *const shown = take(cells);
    T *const row = take(u.keys), *const factor = take(u.keys), *const sy = take(wide), *const sdy = take(wide);
    T *const k_sum = take(part), *const v_sum = take(part), *const one = take(part);
    for (int64_t i0 = 0; i0 < u.queries; i0 += Base::block_) {
      const int64_t n = std::min(Base::block_, u.queries - i0);
      const Matrix dy = Base::at(dy_, f_.y, u, i0), q = Base::at(Base::q_, f_.q, u, i0),
                   k = Base::at(Base::k_, f_.k, u, 0);
      Base::scores(u, i0, n, p, row, hides ? shown : nullptr);
      multiply<T>(false, true, n, u.keys, f_.value_width, 1, dy, Base::at(Base::v_, f_.v, u, 0),
                  {g, DTypeOf<T>::value, u.keys});
      for (int64_t i = 0; i < n; ++i) {
        const T* y = elementwise_detail::load<T>(y_, element(y_, Base::at(y_, f_.y, u, i0 + i)), f_.value_width, sy);
        const T* d =
            elementwise_detail::load<T>(dy_, element(dy_, Base::at(dy_, f_.y, u, i0 + i)), f_.value_width, sdy);
        if (f_.dropout) Base::factors(u, i0 + i, factor);
        differentiate(p + i * u.keys, g + i * u.keys, hides ? shown + i * u.keys : nullptr,
                      f_.dropout ? factor : nullptr, u.keys, lse_[Base::lse_at(u, i0 + i)], y, d);
      }
      const Matrix r = Base::as_operand(p, n * u.keys, u.keys, p_image),
                   ds = Base::as_operand(g, n * u.keys, u.keys, g_image);
      multiply<T>(false, false, n, f_.width, u.keys, f_.scale, ds, k, Base::at(dq_, f_.q, u, i0));
      add_product(ds, q, n, u.keys, f_.width, f_.scale, sums, i0 == 0, one, k_sum, Base::at(dk_, f_.k, u, 0));
      add_product(r, dy, n, u.keys, f_.value_width, 1, sums, i0 == 0, one, v_sum, Base::at(dv_, f_.v, u, 0));
    }
    if (sums) {
      leave(k_sum, u.keys, f_.width, Base::at(dk_, f_.k, u, 0));
      leave(v_sum, u.keys, f_.value_width, Base::at(dv_, f_.v, u, 0));
    }
    if (u.queries == 0 && u.keys > 0) {
      std::fill_n(one, part, T(0));
      leave(one, u.keys, f_.width, Base::at(dk_, f_.k, u, 0));
      leave(one, u.keys, f_.value_width, Base::at(dv_, f_.v, u, 0));
    }
  }
  // p: z -> dropout(softmax);  g: dy v^T -> ds.
  void differentiate(T* p, T* g, const T* shown, const T* factor, int64_t n, T lse, const T* y, const T* dy) const {
    if (lse != lse && std::all_of(dy, dy + f_.value_width, [](T d) { return d == T(0); })) {
      std::fill_n(p, n, T(0));
      std::fill_n(g, n, T(0));
      return;
    }
    simd([&]() AMP_INLINE {
      const T d = lane_sum<T>(f_.value_width, [&](int64_t h) AMP_INLINE { return y[h] * dy[h]; });
      if (factor) {
        for (int64_t j = 0; j < n; ++j) {
          const T soft = math::exp(p[j] - lse);
          const bool kept = factor[j] != T(0);
          g[j] = soft * ((kept ? g[j] * factor[j] : T(0)) - d);
          p[j] = kept ? soft * factor[j] : T(0);
        }
      } else {
        for (int64_t j = 0; j < n; ++j) {
          p[j] = math::exp(p[j] - lse);
          g[j] = p[j] * (g[j] - d);
        }
      }
      if (shown) {
        for (int64_t j = 0; j < n; ++j) g[j] = shown[j] == T(0) ? T(0) : g[j];
      }
    });
  }
  // to = alpha x^T w, x being (n, keys), w (n, width): at once, or added up over blocks of rows.
  void add_product(const Matrix& x, const Matrix& w, int64_t n, int64_t keys, int64_t width, double alpha, bool sums,
                   bool first, T* one, T* sum, const Matrix& to) const {
    if (!sums) return multiply<T>(true, false, keys, width, n, alpha, x, w, to);
    multiply<T>(true, false, keys, width, n, alpha, x, w, {first ? sum : one, DTypeOf<T>::value, width});
    if (first) return;
    simd([&]() AMP_INLINE {
      for (int64_t i = 0; i < keys * width; ++i) sum[i] += one[i];
    });
  }
  void leave(const T* x, int64_t keys, int64_t width, const Matrix& to) const {
    for (int64_t j = 0; j < keys; ++j) {
      convert(DTypeOf<T>::value, x + j * width, to.dtype,
              static_cast<char*>(const_cast<void*>(to.data)) + j * to.ld * size_of(to.dtype), width);
    }
  }
  static int64_t element(const Tensor& t, const Matrix& m) {
    return (static_cast<const char*>(m.data) - static_cast<const char*>(t.data)) / size_of(t.dtype);
  }

  Tensor y_, dy_, dq_, dk_, dv_;
  const T* lse_;
};

template <template <class> class K>
Kernel prepare(const KernelArgs& a, Carver& carver) {
  const auto typed = [&]<class T>(T) -> Kernel {
    const Images<T> x(a, carver);
    if (carver.measuring()) return {};
    return K<T>(a, x);
  };
  return in_double(a) ? typed(double{}) : typed(float{});
}

OpDef def(const char* name, void (*infer)(InferCtx&), Gradient gradient,
          int64_t (*workspace)(const Graph&, const Node&), Definition definition = nullptr) {
  OpDef d;
  d.definition = definition;
  d.name = name;
  d.infer = infer;
  d.gradient = gradient;
  d.workspace = workspace;
  return d;
}
const RegisterOp ops_[] = {
    RegisterOp{def("FusedAttention", infer_attention, grad_attention, measure_workspace<prepare<Forward>>)},
    RegisterOp{def("FusedAttentionGrad", infer_attention_grad, nullptr, measure_workspace<prepare<Backward>>,
                   define_attention_grad)}};
// Two products forward, five backward (Dao et al., FlashAttention, 2022): what it takes without keeping scores.
double flops(const KernelArgs& a, double products) {
  const bool packed = a.attrs().i("packed", 0) != 0, heads_first = a.attrs().i("heads_first", 0) != 0;
  const double q = static_cast<double>(a.in[0].numel()) / (packed ? 3 : 1);
  const Tensor& k = packed ? a.in[0] : a.in[1];
  int64_t keys = k.dims.at(heads_first ? 2 : 1);
  if (a.has(4)) keys = std::min(keys, std::max<int64_t>(1, a.attrs().i("max_len", keys)));
  return 2 * products * q * static_cast<double>(keys);
}
const RegisterFlops flops_[] = {{"FusedAttention", [](const KernelArgs& a) { return flops(a, 2); }},
                                {"FusedAttentionGrad", [](const KernelArgs& a) { return flops(a, 5); }}};
const RegisterKernel kernels_[] = {{DeviceKind::cpu, "FusedAttention", with_workspace<prepare<Forward>>},
                                   {DeviceKind::cpu, "FusedAttentionGrad", with_workspace<prepare<Backward>>}};

}  // namespace
}  // namespace amp
