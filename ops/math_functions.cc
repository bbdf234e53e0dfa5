// Sqrt, Reciprocal, Exp, Log, Erf, Pow, Sin, Cos, Floor, Ceil, Round: ONNX 6+.
#include <cmath>

#include "graph/quantizer.h"
#include "ops/elementwise_op.h"
#include "ops/term.h"

namespace amp {
namespace {

// <functors>: fused kernels are generated from this text (cmake/functors.cmake)
struct Sqrt : Unary {
  template <class T>
  HD T operator()(T x) const {
    return std::sqrt(x);
  }
};
struct SqrtGrad : Binary {
  template <class T>
  HD T operator()(T y, T dy) const {
    return dy * T(0.5) / y;
  }
};
struct Reciprocal : Unary {
  template <class T>
  HD T operator()(T x) const {
    return T(1) / x;
  }
};
struct ReciprocalGrad : Binary {
  template <class T>
  HD T operator()(T y, T dy) const {
    return -dy * y * y;
  }
};
struct Exp : Unary {
  template <class T>
  HD T operator()(T x) const {
    return math::exp(x);
  }
};
struct Log : Unary {
  template <class T>
  HD T operator()(T x) const {
    return std::log(x);
  }
};
struct Erf : Unary {
  template <class T>
  HD T operator()(T x) const {
    return math::erf(x);
  }
};
struct ErfGrad : Binary {  // derivative 2/sqrt(pi) e^(-x^2)
  template <class T>
  HD T operator()(T x, T dy) const {
    return dy * T(1.1283791670955126) * math::exp(-x * x);
  }
};
struct Pow : Functor<2, FloatsAndInts> {
  template <class T>
  HD T operator()(T x, T e) const {
    return static_cast<T>(std::pow(x, e));
  }
};
struct Sin : Unary {
  template <class T>
  HD T operator()(T x) const {
    return std::sin(x);
  }
};
struct Cos : Unary {
  template <class T>
  HD T operator()(T x) const {
    return std::cos(x);
  }
};
struct Floor : Unary {
  template <class T>
  HD T operator()(T x) const {
    return std::floor(x);
  }
};
struct Ceil : Unary {
  template <class T>
  HD T operator()(T x) const {
    return std::ceil(x);
  }
};
// Rounds halves to even.
struct Round : Unary {
  template <class T>
  HD T operator()(T x) const {
    return std::nearbyint(x);
  }
};
// </functors>

void grad_sqrt(GradBuilder& g) { g.add_grad(0, g.op("SqrtGrad", {g.out(0), g.dy(0)})); }
void grad_reciprocal(GradBuilder& g) { g.add_grad(0, g.op("ReciprocalGrad", {g.out(0), g.dy(0)})); }
void grad_exp(GradBuilder& g) { g.add_grad(0, g.op("Mul", {g.out(0), g.dy(0)})); }
void grad_log(GradBuilder& g) { g.add_grad(0, g.op("Div", {g.dy(0), g.in(0)})); }
void grad_erf(GradBuilder& g) { g.add_grad(0, g.op("ErfGrad", {g.in(0), g.dy(0)})); }
void grad_sin(GradBuilder& g) { g.add_grad(0, g.op("Mul", {g.dy(0), g.op("Cos", {g.in(0)})})); }
void grad_cos(GradBuilder& g) { g.add_grad(0, g.op("Neg", {g.op("Mul", {g.dy(0), g.op("Sin", {g.in(0)})})})); }
// d(x^e) = e x^(e-1) dx + x^e log(x) de. As in PyTorch, the first term is 0 if e = 0, and the second is 0 if x = 0 and
// e >= 0, although a factor of the term may be infinite.
void grad_pow(GradBuilder& g) {
  const ValueId x = g.in(0), e = g.in(1), zero = g.b.scalar(0, g.b.dtype(e));
  if (g.needs(0)) {
    const ValueId less_one = g.op("Sub", {e, g.b.scalar(1, g.b.dtype(e))});
    const ValueId v = g.op("Mul", {g.dy(0), g.op("Mul", {e, g.op("Pow", {x, less_one})})});
    g.add_grad(0, g.op("Where", {g.op("Equal", {e, zero}), g.b.scalar(0, g.b.dtype(v)), v}));
  }
  if (g.needs(1)) {
    const ValueId v = g.op("Mul", {g.dy(0), g.op("Mul", {g.out(0), g.op("Log", {x})})});
    const ValueId flat =
        g.op("And", {g.op("Equal", {x, g.b.scalar(0, g.b.dtype(x))}), g.op("GreaterOrEqual", {e, zero})});
    g.add_grad(1, g.op("Where", {flat, g.b.scalar(0, g.b.dtype(v)), v}));
  }
}
// Decompositions of the gradients of unary operators. The inputs are (x, dy), or (y, dy) if the gradient uses the
// result.
using Values = std::vector<ValueId>;
Values decompose_sqrt(Builder& b, const Values& in, const Attrs&) { return {Term(b, in[1]) * 0.5 / Term(b, in[0])}; }
Values decompose_reciprocal(Builder& b, const Values& in, const Attrs&) {
  const Term y(b, in[0]), dy(b, in[1]);
  return {-dy * y * y};
}
Values decompose_erf(Builder& b, const Values& in, const Attrs&) {
  const Term x(b, in[0]), dy(b, in[1]);
  return {dy * 1.1283791670955126 * (-x * x).to("Exp")};
}
void grad_zero(GradBuilder&) {}  // the derivative is 0 almost everywhere

const RegisterElementwise<Sqrt> sqrt_{"Sqrt", grad_sqrt};
const RegisterElementwise<SqrtGrad> sqrt_grad{"SqrtGrad", decompose_sqrt};
const RegisterElementwise<Reciprocal> reciprocal{"Reciprocal", grad_reciprocal};
const RegisterElementwise<ReciprocalGrad> reciprocal_grad{"ReciprocalGrad", decompose_reciprocal};
const RegisterElementwise<Exp> exp_{"Exp", grad_exp};
const RegisterElementwise<Log> log_{"Log", grad_log};
const RegisterElementwise<Erf> erf_{"Erf", grad_erf};
const RegisterElementwise<ErfGrad> erf_grad{"ErfGrad", decompose_erf};
const RegisterElementwise<Pow> pow_{"Pow", grad_pow};
const RegisterElementwise<Sin> sin_{"Sin", grad_sin};
const RegisterElementwise<Cos> cos_{"Cos", grad_cos};
const RegisterElementwise<Floor> floor_{"Floor", grad_zero};
const RegisterElementwise<Ceil> ceil_{"Ceil", grad_zero};
const RegisterElementwise<Round> round_{"Round", grad_zero};
// RoundStraight is the Round of a quantizer (importer/quantized/fake_quant.h). The gradient passes it unchanged.
void grad_straight(GradBuilder& g) { g.add_grad(0, g.dy(0)); }
const RegisterElementwise<Round> round_through{"RoundStraight", grad_straight};
void lower_round(Lowering& l) {
  l.out(0, l.b.op(l.attrs.i(kStraightThrough, 0) != 0 ? "RoundStraight" : "Round", {l.in(0)}));
}

// Lowers Pow. Powers of 1, 2 and 3 become products, which are exact, fast and differentiable at 0; 0.5 becomes Sqrt.
void lower_pow(Lowering& l) {
  Builder& b = l.b;
  const ValueId x = l.in(0);
  ValueId e = l.in(1);
  const bool keeps_shape = broadcast(l.dims(0), l.dims(1)) == l.dims(0);
  if (keeps_shape && b.is_constant(e, 1)) return l.out(0, x);
  if (keeps_shape && b.is_constant(e, 2)) return l.out(0, b.op("Mul", {x, x}));
  if (keeps_shape && b.is_constant(e, 3)) return l.out(0, b.op("Mul", {b.op("Mul", {x, x}), x}));
  if (keeps_shape && b.is_constant(e, 0.5) && is_float(b.dtype(x))) return l.out(0, b.op("Sqrt", {x}));
  if (b.dtype(e) != b.dtype(x)) {
    // The result has x's type. An integer base with a floating-point exponent is computed in floating point.
    if (is_float(b.dtype(x)))
      e = b.cast(e, b.dtype(x));
    else
      return l.out(0, b.cast(b.op("Pow", {b.cast(x, b.dtype(e)), e}), b.dtype(x)));
  }
  l.out(0, b.op("Pow", {x, e}));
}

const RegisterOnnx onnx[] = {
    RegisterOnnx{{"Sqrt", lower_same_name, 6, {}}},  RegisterOnnx{{"Reciprocal", lower_same_name, 6, {}}},
    RegisterOnnx{{"Exp", lower_same_name, 6, {}}},   RegisterOnnx{{"Log", lower_same_name, 6, {}}},
    RegisterOnnx{{"Erf", lower_same_name, 9, {}}},   RegisterOnnx{{"Pow", lower_pow, 7, {}}},
    RegisterOnnx{{"Sin", lower_same_name, 7, {}}},   RegisterOnnx{{"Cos", lower_same_name, 7, {}}},
    RegisterOnnx{{"Floor", lower_same_name, 6, {}}}, RegisterOnnx{{"Ceil", lower_same_name, 6, {}}},
    RegisterOnnx{{"Round", lower_round, 11, {}}}};

}  // namespace
}  // namespace amp
