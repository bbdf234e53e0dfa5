// Add, Sub, Mul, Div, Neg, Abs, Sign, Mod, Sum, Mean: ONNX 7+ (NumPy broadcasting).
#include <cmath>

#include "graph/quantizer.h"
#include "ops/elementwise_op.h"

namespace amp {
namespace {

// <functors>: fused kernels are generated from this text (cmake/functors.cmake)
struct Add : Functor<2, FloatsAndInts> {
  template <class T>
  HD T operator()(T a, T b) const {
    return static_cast<T>(a + b);
  }
};
struct Sub : Functor<2, FloatsAndInts> {
  template <class T>
  HD T operator()(T a, T b) const {
    return static_cast<T>(a - b);
  }
};
struct Mul : Functor<2, FloatsAndInts> {
  template <class T>
  HD T operator()(T a, T b) const {
    return static_cast<T>(a * b);
  }
};
struct Div : Functor<2, FloatsAndInts> {
  template <class T>
  HD T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return b == 0 ? T(0) : static_cast<T>(a / b);
    else
      return a / b;
  }
};
struct Neg : Functor<1, FloatsAndInts> {
  template <class T>
  HD T operator()(T x) const {
    return static_cast<T>(-x);
  }
};
struct Abs : Functor<1, FloatsAndInts> {
  template <class T>
  HD T operator()(T x) const {
    return x < T(0) ? static_cast<T>(-x) : x;
  }
};
struct Sign : Functor<1, FloatsAndInts> {
  template <class T>
  HD T operator()(T x) const {
    return x > T(0) ? T(1) : x < T(0) ? static_cast<T>(-1) : x;
  }
};
// ONNX Mod. The result has the sign of the divisor if fmod = 0 (integers only), and that of the dividend if fmod = 1.
struct Mod : Functor<2, FloatsAndInts> {
  explicit Mod(const Attrs& a) : fmod(a.i("fmod", 0) != 0) {}
  template <class T>
  HD T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) return T(0);
      const T r = static_cast<T>(a % b);
      return !fmod && r != 0 && ((r < 0) != (b < 0)) ? static_cast<T>(r + b) : r;
    } else {
      const T r = static_cast<T>(std::fmod(a, b));
      return !fmod && r != T(0) && ((r < T(0)) != (b < T(0))) ? r + b : r;
    }
  }
  bool fmod;
};
struct Detach : Unary {
  template <class T>
  HD T operator()(T x) const {
    return x;
  }
};
// </functors>

// Returns x if `other` is the neutral constant (x + 0, x * 1) and x has the shape of the result; otherwise an invalid
// id.
ValueId same_if_neutral(Builder& b, ValueId x, ValueId other, double neutral) {
  if (b.value(other).kind != ValueKind::constant || b.value(x).kind == ValueKind::constant) return {};
  if (broadcast(b.dims(x), b.dims(other)) != b.dims(x) || !b.is_constant(other, neutral)) return {};
  return x;
}
ValueId simplify_add(Builder& b, const std::vector<ValueId>& in, const Attrs&) {
  if (const ValueId v = same_if_neutral(b, in[0], in[1], 0)) return v;
  return same_if_neutral(b, in[1], in[0], 0);
}
ValueId simplify_mul(Builder& b, const std::vector<ValueId>& in, const Attrs&) {
  if (const ValueId v = same_if_neutral(b, in[0], in[1], 1)) return v;
  return same_if_neutral(b, in[1], in[0], 1);
}
ValueId simplify_sub(Builder& b, const std::vector<ValueId>& in, const Attrs&) {
  return same_if_neutral(b, in[0], in[1], 0);
}
ValueId simplify_div(Builder& b, const std::vector<ValueId>& in, const Attrs&) {
  return same_if_neutral(b, in[0], in[1], 1);
}

void grad_add(GradBuilder& g) {
  g.add_grad(0, g.dy(0));
  g.add_grad(1, g.dy(0));
}
void grad_sub(GradBuilder& g) {
  g.add_grad(0, g.dy(0));
  if (g.needs(1)) g.add_grad(1, g.op("Neg", {g.dy(0)}));
}
void grad_mul(GradBuilder& g) {
  if (g.needs(0)) g.add_grad(0, g.op("Mul", {g.dy(0), g.in(1)}));
  if (g.needs(1)) g.add_grad(1, g.op("Mul", {g.dy(0), g.in(0)}));
}
void grad_div(GradBuilder& g) {
  const ValueId q = g.op("Div", {g.dy(0), g.in(1)});
  g.add_grad(0, q);
  if (g.needs(1)) g.add_grad(1, g.op("Neg", {g.op("Mul", {q, g.out(0)})}));
}
void grad_neg(GradBuilder& g) { g.add_grad(0, g.op("Neg", {g.dy(0)})); }
void grad_abs(GradBuilder& g) { g.add_grad(0, g.op("Mul", {g.dy(0), g.op("Sign", {g.in(0)})})); }
void grad_mod(GradBuilder& g) {
  // a mod b = a - b floor(a/b), so da = dy. The quotient floor(a/b) is piecewise constant.
  g.add_grad(0, g.dy(0));
  if (g.needs(1))
    g.add_grad(1, g.op("Neg", {g.op("Mul", {g.dy(0), g.op("Div", {g.op("Sub", {g.in(0), g.out(0)}), g.in(1)})})}));
}

const RegisterElementwise<Add> add{"Add", grad_add, simplify_add};
const RegisterElementwise<Sub> sub{"Sub", grad_sub, simplify_sub};
const RegisterElementwise<Mul> mul{"Mul", grad_mul, simplify_mul};
const RegisterElementwise<Div> div_{"Div", grad_div, simplify_div};
const RegisterElementwise<Neg> neg{"Neg", grad_neg};
const RegisterElementwise<Abs> abs_{"Abs", grad_abs};
const RegisterElementwise<Sign> sign{"Sign", [](GradBuilder&) {}};  // the gradient is zero almost everywhere
const RegisterElementwise<Mod> mod{"Mod", grad_mod};
const RegisterElementwise<Detach> detach{"Detach", [](GradBuilder&) {}};  // as torch.Tensor.detach: no gradient passes

// Lowers Add and Sub. No gradient passes to inputs in the list kDetached (importer/quantized/straight_through.h).
void lower_sum_of_two(Lowering& l) {
  ValueId in[] = {l.in(0), l.in(1)};
  for (const int64_t k : l.attrs.ints(kDetached)) in[k] = l.b.op("Detach", {in[k]});
  l.out(0, l.b.op(l.node.op, {in[0], in[1]}));
}

ValueId chain_add(Lowering& l) {
  ValueId v = l.in(0);
  for (size_t i = 1; i < l.n_in(); ++i) v = l.b.op("Add", {v, l.in(i)});
  return v;
}
void lower_sum(Lowering& l) { l.out(0, chain_add(l)); }
void lower_mean(Lowering& l) {
  const ValueId sum = chain_add(l);
  l.out(0, l.b.op("Mul", {sum, l.b.scalar(1.0 / static_cast<double>(l.n_in()), l.b.dtype(sum))}));
}

const RegisterOnnx onnx[] = {
    RegisterOnnx{{"Add", lower_sum_of_two, 7, {}}}, RegisterOnnx{{"Sub", lower_sum_of_two, 7, {}}},
    RegisterOnnx{{"Mul", lower_same_name, 7, {}}},  RegisterOnnx{{"Div", lower_same_name, 7, {}}},
    RegisterOnnx{{"Neg", lower_same_name, 6, {}}},  RegisterOnnx{{"Abs", lower_same_name, 6, {}}},
    RegisterOnnx{{"Sign", lower_same_name, 9, {}}}, RegisterOnnx{{"Mod", lower_same_name, 10, {}}},
    RegisterOnnx{{"Sum", lower_sum, 6, {}}},        RegisterOnnx{{"Mean", lower_mean, 6, {}}}};

}  // namespace
}  // namespace amp
