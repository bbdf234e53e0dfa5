// Where (ONNX 9+), Clip (6+: bounds as attributes, 11+: as inputs), Max, Min (8+).
#include <limits>

#include "ops/elementwise_op.h"
#include "ops/term.h"

namespace amp {
namespace {

using namespace elementwise_detail;

// ---- Where: the condition is bool, a and b have the same type
void infer_where(InferCtx& c) { c.out(c.in(1).dtype, broadcast(c.in(0).dims, broadcast(c.in(1).dims, c.in(2).dims))); }

template <class T>
Kernel typed_where(const KernelArgs& a) {
  const Tensor cond = a.in[0], x = a.in[1], z = a.in[2], y = a.out[0];
  if (y.numel() == 0) return [] {};
  const Space<3> space = make_space<3>(y.dims, {&cond.dims, &x.dims, &z.dims});
  return [=] {
    parallel_ranges(space.outer, 16384 / space.inner + 1, [&](int64_t b, int64_t e) {
      T sx[kChunk], sz[kChunk], sy[kChunk];
      for (int64_t row = b; row < e; ++row) {
        const auto off = space.offsets(row);
        for (int64_t at = 0; at < space.inner; at += kChunk) {
          const int64_t n = std::min(kChunk, space.inner - at);
          const auto s = space.inner_stride;
          const bool* c = static_cast<const bool*>(cond.data) + off[0] + at * s[0];
          const T* p = load<T>(x, off[1] + at * s[1], s[1] ? n : 1, sx);
          const T* q = load<T>(z, off[2] + at * s[2], s[2] ? n : 1, sz);
          const bool direct = y.dtype == DTypeOf<T>::value;
          T* r = direct ? static_cast<T*>(y.data) + row * space.inner + at : sy;
          for (int64_t i = 0; i < n; ++i) r[i] = c[i * s[0]] ? p[i * s[1]] : q[i * s[2]];
          if (!direct)
            convert(DTypeOf<T>::value, r, y.dtype,
                    static_cast<char*>(y.data) + (row * space.inner + at) * size_of(y.dtype), n);
        }
      }
    });
  };
}
Kernel where_kernel(const KernelArgs& a) {
  if (is_float(a.in[1].dtype)) return in_double(a) ? typed_where<double>(a) : typed_where<float>(a);
  return with_type(a.in[1].dtype, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>)
      return typed_where<T>(a);
    else
      bug("unreachable");
  });
}
void grad_where(GradBuilder& g) {
  const ValueId zero = g.b.scalar(0, g.b.dtype(g.out(0)));
  if (g.needs(1)) g.add_grad(1, g.op("Where", {g.in(0), g.dy(0), zero}));
  if (g.needs(2)) g.add_grad(2, g.op("Where", {g.in(0), zero, g.dy(0)}));
}
ValueId simplify_where(Builder& b, const std::vector<ValueId>& in, const Attrs&) {
  const Dims out = broadcast(b.dims(in[0]), broadcast(b.dims(in[1]), b.dims(in[2])));
  if (b.is_constant(in[0], 1)) return b.expand(in[1], out);
  if (b.is_constant(in[0], 0)) return b.expand(in[2], out);
  return {};
}

OpDef where_def() {
  OpDef d;
  d.name = "Where";
  d.infer = infer_where;
  d.gradient = grad_where;
  d.simplify = simplify_where;
  return d;
}
const RegisterOp where_op{where_def()};
#ifndef AMP_CUDA_UNIT
const RegisterKernel where_cpu{DeviceKind::cpu, "Where", where_kernel};
#endif

// ---- Max, Min: the result is NaN if an operand is
// <functors>: fused kernels are generated from this text (cmake/functors.cmake)
struct Max : Functor<2, FloatsAndInts> {
  template <class T>
  HD T operator()(T a, T b) const {
    return a > b || a != a ? a : b;
  }
};
struct Min : Functor<2, FloatsAndInts> {
  template <class T>
  HD T operator()(T a, T b) const {
    return a < b || a != a ? a : b;
  }
};
// </functors>

// The gradient goes to the larger operand (for Min the smaller), in halves if both are equal, as in PyTorch.
void grad_extreme(GradBuilder& g) {
  const DType t = g.b.dtype(g.out(0));
  const ValueId half = g.op("Mul", {g.dy(0), g.b.scalar(0.5, t)}), zero = g.b.scalar(0, t);
  const ValueId equal = g.op("Equal", {g.in(0), g.in(1)});
  const char* wins = g.node().op->name == "Max" ? "Greater" : "Less";
  for (size_t i = 0; i < 2; ++i) {
    if (!g.needs(i)) continue;
    const ValueId won = g.op(wins, {g.in(i), g.in(1 - i)});
    g.add_grad(i, g.op("Where", {equal, half, g.op("Where", {won, g.dy(0), zero})}));
  }
}
const RegisterElementwise<Max> max_{"Max", grad_extreme};
const RegisterElementwise<Min> min_{"Min", grad_extreme};

// ---- Clip with constant bounds: NaN stays NaN
// <functors>: fused kernels are generated from this text (cmake/functors.cmake)
struct Clip : Functor<1, FloatsAndInts> {
  explicit Clip(const Attrs& a)
      : lo(a.f("min", -std::numeric_limits<double>::infinity())),
        hi(a.f("max", std::numeric_limits<double>::infinity())) {}
  template <class T>
  HD T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) {
      const T l = static_cast<T>(lo), h = static_cast<T>(hi);
      const T y = x < l ? l : x;
      return y > h ? h : y;
    } else {
      const double y = static_cast<double>(x);
      return y < lo ? static_cast<T>(lo) : y > hi ? static_cast<T>(hi) : x;
    }
  }
  double lo, hi;
};
struct ClipGrad : Binary {  // as in PyTorch's clamp, dy passes at the bounds themselves
  explicit ClipGrad(const Attrs& a)
      : lo(a.f("min", -std::numeric_limits<double>::infinity())),
        hi(a.f("max", std::numeric_limits<double>::infinity())) {}
  template <class T>
  HD T operator()(T x, T dy) const {
    return x >= static_cast<T>(lo) && x <= static_cast<T>(hi) ? dy : T(0);
  }
  double lo, hi;
};
// </functors>

void grad_clip(GradBuilder& g) { g.add_grad(0, g.op("ClipGrad", {g.in(0), g.dy(0)}, g.attrs())); }
std::vector<ValueId> decompose_clip(Builder& b, const std::vector<ValueId>& in, const Attrs& a) {
  const Term x(b, in[0]), dy(b, in[1]);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return {where(both(x >= a.f("min", -kInfinity), x <= a.f("max", kInfinity)), dy, 0)};
}
const RegisterElementwise<Clip> clip{"Clip", grad_clip};
const RegisterElementwise<ClipGrad> clip_grad{"ClipGrad", decompose_clip};

void lower_where(Lowering& l) { l.out(0, l.b.op("Where", {l.in(0), l.in(1), l.in(2)})); }
void lower_extreme(Lowering& l) {
  ValueId v = l.in(0);
  for (size_t i = 1; i < l.n_in(); ++i) v = l.b.op(l.node.op, {v, l.in(i)});
  l.out(0, v);
}
void lower_clip(Lowering& l) {
  Builder& b = l.b;
  const auto known = [&](size_t i) { return !l.has(i) || b.constant_of(l.in(i)); };
  if (!known(1) || !known(2)) {  // bounds that are not constants
    ValueId v = l.in(0);
    if (l.has(1)) v = b.op("Max", {v, l.in(1)});
    if (l.has(2)) v = b.op("Min", {v, l.in(2)});
    return l.out(0, v);
  }
  Attrs a;
  if (l.has(1)) a.set("min", l.constant(1).to_doubles().at(0));
  if (l.has(2)) a.set("max", l.constant(2).to_doubles().at(0));
  if (l.version() < 11 && l.attrs.has("min")) a.set("min", l.attrs.f("min", 0));
  if (l.version() < 11 && l.attrs.has("max")) a.set("max", l.attrs.f("max", 0));
  l.out(0, a.items().empty() ? l.in(0) : b.op("Clip", {l.in(0)}, a));
}
const RegisterOnnx onnx[] = {RegisterOnnx{{"Where", lower_where, 9, {}}}, RegisterOnnx{{"Max", lower_extreme, 8, {}}},
                             RegisterOnnx{{"Min", lower_extreme, 8, {}}}, RegisterOnnx{{"Clip", lower_clip, 6, {}}}};

}  // namespace
}  // namespace amp
