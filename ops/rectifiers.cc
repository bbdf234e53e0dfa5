// Rectifiers: Relu, LeakyRelu, PRelu, Elu, Selu, Celu, ThresholdedRelu, Shrink (ONNX 6+). Each gradient is one functor
// of (x, dy) or (y, dy); PRelu has two. Comparisons are written so that forward passes NaN through: an overflow must
// remain visible.
#include "ops/elementwise_op.h"
#include "ops/term.h"

namespace amp {
namespace {

// <functors>: fused kernels are generated from this text (cmake/functors.cmake)
struct Relu : Functor<1, FloatsAndInts> {
  template <class T>
  HD T operator()(T x) const {
    return x < T(0) ? T(0) : x;
  }
};
struct ReluGrad : Binary {
  template <class T>
  HD T operator()(T y, T dy) const {
    return y > T(0) ? dy : T(0);
  }
};

struct LeakyRelu : Unary {
  explicit LeakyRelu(const Attrs& a) : alpha(a.f("alpha", 0.01)) {}
  template <class T>
  HD T operator()(T x) const {
    return x < T(0) ? x * static_cast<T>(alpha) : x;
  }
  double alpha;
};
struct LeakyReluGrad : Binary {
  explicit LeakyReluGrad(const Attrs& a) : alpha(a.f("alpha", 0.01)) {}
  template <class T>
  HD T operator()(T x, T dy) const {
    return x < T(0) ? dy * static_cast<T>(alpha) : dy;
  }
  double alpha;
};

struct PRelu : Functor<2, FloatsAndInts> {
  template <class T>
  HD T operator()(T x, T slope) const {
    return x < T(0) ? static_cast<T>(x * slope) : x;
  }
};
struct PReluGradX : Ternary {
  template <class T>
  HD T operator()(T x, T slope, T dy) const {
    return x > T(0) ? dy : dy * slope;
  }
};
struct PReluGradSlope : Binary {
  template <class T>
  HD T operator()(T x, T dy) const {
    return x > T(0) ? T(0) : dy * x;
  }
};

struct Elu : Unary {
  explicit Elu(const Attrs& a) : alpha(a.f("alpha", 1)) {}
  template <class T>
  HD T operator()(T x) const {
    return x < T(0) ? static_cast<T>(alpha) * (math::exp(x) - T(1)) : x;
  }
  double alpha;
};
struct EluGrad : Binary {
  explicit EluGrad(const Attrs& a) : alpha(a.f("alpha", 1)) {}
  template <class T>
  HD T operator()(T x, T dy) const {
    return x < T(0) ? dy * static_cast<T>(alpha) * math::exp(x) : dy;
  }
  double alpha;
};

// gamma x for x > 0, else gamma alpha (e^x - 1). The ONNX specification prints the defaults rounded to fp32.
struct Selu : Unary {
  explicit Selu(const Attrs& a)
      : alpha(a.f("alpha", 1.6732632423543772848)), gamma(a.f("gamma", 1.0507009873554804934)) {}
  template <class T>
  HD T operator()(T x) const {
    return static_cast<T>(gamma) * (x < T(0) ? static_cast<T>(alpha) * (math::exp(x) - T(1)) : x);
  }
  double alpha, gamma;
};
struct SeluGrad : Binary {
  explicit SeluGrad(const Attrs& a)
      : alpha(a.f("alpha", 1.6732632423543772848)), gamma(a.f("gamma", 1.0507009873554804934)) {}
  template <class T>
  HD T operator()(T x, T dy) const {
    return dy * static_cast<T>(gamma) * (x > T(0) ? T(1) : static_cast<T>(alpha) * math::exp(x));
  }
  double alpha, gamma;
};

// x for x > 0, else alpha (e^(x/alpha) - 1)
struct Celu : Unary {
  explicit Celu(const Attrs& a) : alpha(a.f("alpha", 1)) {}
  template <class T>
  HD T operator()(T x) const {
    const T k = static_cast<T>(alpha);
    return x < T(0) ? k * (math::exp(x / k) - T(1)) : x;
  }
  double alpha;
};
struct CeluGrad : Binary {
  explicit CeluGrad(const Attrs& a) : alpha(a.f("alpha", 1)) {}
  template <class T>
  HD T operator()(T x, T dy) const {
    return x > T(0) ? dy : dy * math::exp(x / static_cast<T>(alpha));
  }
  double alpha;
};

struct ThresholdedRelu : Unary {
  explicit ThresholdedRelu(const Attrs& a) : alpha(a.f("alpha", 1)) {}
  template <class T>
  HD T operator()(T x) const {
    return x <= static_cast<T>(alpha) ? T(0) : x;
  }
  double alpha;
};
struct ThresholdedReluGrad : Binary {
  explicit ThresholdedReluGrad(const Attrs& a) : alpha(a.f("alpha", 1)) {}
  template <class T>
  HD T operator()(T x, T dy) const {
    return x > static_cast<T>(alpha) ? dy : T(0);
  }
  double alpha;
};

// x + bias below -lambd, x - bias above lambd, 0 between
struct Shrink : Unary {
  explicit Shrink(const Attrs& a) : bias(a.f("bias", 0)), lambd(a.f("lambd", 0.5)) {}
  template <class T>
  HD T operator()(T x) const {
    const T k = static_cast<T>(lambd), b = static_cast<T>(bias);
    return x < -k ? x + b : x > k ? x - b : x != x ? x : T(0);
  }
  double bias, lambd;
};
struct ShrinkGrad : Binary {
  explicit ShrinkGrad(const Attrs& a) : lambd(a.f("lambd", 0.5)) {}
  template <class T>
  HD T operator()(T x, T dy) const {
    return x < -static_cast<T>(lambd) || x > static_cast<T>(lambd) ? dy : T(0);
  }
  double lambd;
};
// </functors>

void grad_from_y(GradBuilder& g) { g.add_grad(0, g.op(g.node().op->name + "Grad", {g.out(0), g.dy(0)}, g.attrs())); }
void grad_from_x(GradBuilder& g) { g.add_grad(0, g.op(g.node().op->name + "Grad", {g.in(0), g.dy(0)}, g.attrs())); }
void grad_prelu(GradBuilder& g) {
  if (g.needs(0)) g.add_grad(0, g.op("PReluGradX", {g.in(0), g.in(1), g.dy(0)}));
  if (g.needs(1)) g.add_grad(1, g.op("PReluGradSlope", {g.in(0), g.dy(0)}));
}

// Decompositions of the gradients. The inputs are (x or y, dy), or (x, slope, dy) for PRelu's gradient to x. Both
// branches of a Where must be finite, because the derivative of the branch that is not selected is multiplied by 0.
using Values = std::vector<ValueId>;
Values decompose_relu(Builder& b, const Values& in, const Attrs&) {
  return {where(Term(b, in[0]) > 0, Term(b, in[1]), 0)};
}
Values decompose_leaky(Builder& b, const Values& in, const Attrs& a) {
  const Term x(b, in[0]), dy(b, in[1]);
  return {where(x < 0, dy * a.f("alpha", 0.01), dy)};
}
Values decompose_prelu_x(Builder& b, const Values& in, const Attrs&) {
  const Term x(b, in[0]), slope(b, in[1]), dy(b, in[2]);
  return {where(x > 0, dy, dy * slope)};
}
Values decompose_prelu_slope(Builder& b, const Values& in, const Attrs&) {
  const Term x(b, in[0]), dy(b, in[1]);
  return {where(x > 0, x.like(0), dy * x)};
}
Values decompose_elu(Builder& b, const Values& in, const Attrs& a) {
  const Term x(b, in[0]), dy(b, in[1]);
  return {where(x < 0, dy * a.f("alpha", 1) * x.at_most(0).to("Exp"), dy)};
}
Values decompose_selu(Builder& b, const Values& in, const Attrs& a) {
  const Term x(b, in[0]), dy(b, in[1]);
  const double alpha = a.f("alpha", 1.6732632423543772848), gamma = a.f("gamma", 1.0507009873554804934);
  return {dy * gamma * where(x > 0, x.like(1), alpha * x.at_most(0).to("Exp"))};
}
Values decompose_celu(Builder& b, const Values& in, const Attrs& a) {
  const Term x(b, in[0]), dy(b, in[1]);
  return {where(x > 0, dy, dy * (x.at_most(0) / a.f("alpha", 1)).to("Exp"))};
}
Values decompose_thresholded(Builder& b, const Values& in, const Attrs& a) {
  return {where(Term(b, in[0]) > a.f("alpha", 1), Term(b, in[1]), 0)};
}
Values decompose_shrink(Builder& b, const Values& in, const Attrs& a) {
  return {where(Term(b, in[0]).to("Abs") > a.f("lambd", 0.5), Term(b, in[1]), 0)};
}

const RegisterElementwise<Relu> relu{"Relu", grad_from_y};
const RegisterElementwise<ReluGrad> relu_grad{"ReluGrad", decompose_relu};
const RegisterElementwise<LeakyRelu> leaky{"LeakyRelu", grad_from_x};
const RegisterElementwise<LeakyReluGrad> leaky_grad{"LeakyReluGrad", decompose_leaky};
const RegisterElementwise<PRelu> prelu{"PRelu", grad_prelu};
const RegisterElementwise<PReluGradX> prelu_grad_x{"PReluGradX", decompose_prelu_x};
const RegisterElementwise<PReluGradSlope> prelu_grad_slope{"PReluGradSlope", decompose_prelu_slope};
const RegisterElementwise<Elu> elu{"Elu", grad_from_x};
const RegisterElementwise<EluGrad> elu_grad{"EluGrad", decompose_elu};
const RegisterElementwise<Selu> selu{"Selu", grad_from_x};
const RegisterElementwise<SeluGrad> selu_grad{"SeluGrad", decompose_selu};
const RegisterElementwise<Celu> celu{"Celu", grad_from_x};
const RegisterElementwise<CeluGrad> celu_grad{"CeluGrad", decompose_celu};
const RegisterElementwise<ThresholdedRelu> thresholded_relu{"ThresholdedRelu", grad_from_x};
const RegisterElementwise<ThresholdedReluGrad> thresholded_relu_grad{"ThresholdedReluGrad", decompose_thresholded};
const RegisterElementwise<Shrink> shrink{"Shrink", grad_from_x};
const RegisterElementwise<ShrinkGrad> shrink_grad{"ShrinkGrad", decompose_shrink};

const RegisterOnnx onnx[] = {RegisterOnnx{{"Relu", lower_same_name, 6, {}}},
                             RegisterOnnx{{"LeakyRelu", lower_same_name, 6, {}}},
                             RegisterOnnx{{"PRelu", lower_same_name, 7, {}}},
                             RegisterOnnx{{"Elu", lower_same_name, 6, {}}},
                             RegisterOnnx{{"Selu", lower_same_name, 6, {}}},
                             RegisterOnnx{{"Celu", lower_same_name, 12, {}}},
                             RegisterOnnx{{"ThresholdedRelu", lower_same_name, 10, {}}},
                             RegisterOnnx{{"Shrink", lower_same_name, 9, {}}}};

}  // namespace
}  // namespace amp
