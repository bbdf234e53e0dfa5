// Sigmoid-shaped functions and gates: Sigmoid, HardSigmoid, Swish, HardSwish, Tanh, Softsign, Softplus, Mish (ONNX 1+).
// Each gradient is one functor of (x, dy) or (y, dy). Comparisons are written so that forward passes NaN through: an
// overflow must remain visible.
#include "ops/elementwise_op.h"
#include "ops/term.h"

namespace amp {
namespace {

// <functors>: fused kernels are generated from this text (cmake/functors.cmake)
struct Sigmoid : Unary {
  template <class T>
  HD T operator()(T x) const {
    return math::sigmoid(x);
  }
};
struct SigmoidGrad : Binary {
  template <class T>
  HD T operator()(T y, T dy) const {
    return dy * y * (T(1) - y);
  }
};

// max(0, min(1, alpha x + beta))
struct HardSigmoid : Unary {
  explicit HardSigmoid(const Attrs& a) : alpha(a.f("alpha", 0.2)), beta(a.f("beta", 0.5)) {}
  template <class T>
  HD T operator()(T x) const {
    const T y = static_cast<T>(alpha) * x + static_cast<T>(beta);
    return y < T(0) ? T(0) : y > T(1) ? T(1) : y;
  }
  double alpha, beta;
};
struct HardSigmoidGrad : Binary {
  explicit HardSigmoidGrad(const Attrs& a) : alpha(a.f("alpha", 0.2)) {}
  template <class T>
  HD T operator()(T y, T dy) const {
    return y > T(0) && y < T(1) ? dy * static_cast<T>(alpha) : T(0);
  }
  double alpha;
};

// x sigmoid(alpha x): ONNX Swish 24, SiLU with alpha 1
struct Swish : Unary {
  explicit Swish(const Attrs& a) : alpha(a.f("alpha", 1)) {}
  template <class T>
  HD T operator()(T x) const {
    return x * math::sigmoid(static_cast<T>(alpha) * x);
  }
  double alpha;
};
struct SwishGrad : Binary {
  explicit SwishGrad(const Attrs& a) : alpha(a.f("alpha", 1)) {}
  template <class T>
  HD T operator()(T x, T dy) const {
    const T s = math::sigmoid(static_cast<T>(alpha) * x);
    return dy * (s + static_cast<T>(alpha) * x * s * (T(1) - s));
  }
  double alpha;
};

// x max(0, min(1, x/6 + 1/2))
struct HardSwish : Unary {
  template <class T>
  HD T operator()(T x) const {
    const T g = x / T(6) + T(0.5);
    return x * (g < T(0) ? T(0) : g > T(1) ? T(1) : g);
  }
};
struct HardSwishGrad : Binary {
  template <class T>
  HD T operator()(T x, T dy) const {
    return x <= T(-3) ? T(0) : x >= T(3) ? dy : dy * (x / T(3) + T(0.5));
  }
};

struct Tanh : Unary {
  template <class T>
  HD T operator()(T x) const {
    return math::tanh(x);
  }
};
struct TanhGrad : Binary {
  template <class T>
  HD T operator()(T y, T dy) const {
    return dy * (T(1) - y * y);
  }
};

// x / (1 + |x|)
struct Softsign : Unary {
  template <class T>
  HD T operator()(T x) const {
    return x / (T(1) + (x < T(0) ? -x : x));
  }
};
struct SoftsignGrad : Binary {
  template <class T>
  HD T operator()(T x, T dy) const {
    const T d = T(1) + (x < T(0) ? -x : x);
    return dy / (d * d);
  }
};

// log(1 + e^x), without overflow
struct Softplus : Unary {
  template <class T>
  HD T operator()(T x) const {
    const T t = x < T(0) ? -x : x;
    return (x < T(0) ? T(0) : x) + static_cast<T>(std::log1p(math::exp(-t)));
  }
};
struct SoftplusGrad : Binary {
  template <class T>
  HD T operator()(T x, T dy) const {
    return dy * math::sigmoid(x);
  }
};

// x tanh(log(1 + e^x)) = x w / (w + 2) with w = e^2x + 2 e^x
template <class T>
HD T mish_gate(T x) {
  const T e = math::exp(x > T(20) ? T(20) : x), w = e * (e + T(2));
  return w / (w + T(2));
}
struct Mish : Unary {
  template <class T>
  HD T operator()(T x) const {
    return x * mish_gate(x);
  }
};
struct MishGrad : Binary {
  template <class T>
  AMP_INLINE HD T operator()(T x, T dy) const {
    const T t = mish_gate(x);
    return dy * (t + x * (T(1) - t * t) * math::sigmoid(x));
  }
};
// </functors>

void grad_from_y(GradBuilder& g) { g.add_grad(0, g.op(g.node().op->name + "Grad", {g.out(0), g.dy(0)}, g.attrs())); }
void grad_from_x(GradBuilder& g) { g.add_grad(0, g.op(g.node().op->name + "Grad", {g.in(0), g.dy(0)}, g.attrs())); }

// Decompositions of the gradients. The inputs are (x or y, dy). Both branches of a Where must be finite, because the
// derivative of the branch that is not selected is multiplied by 0.
using Values = std::vector<ValueId>;
Values decompose_sigmoid(Builder& b, const Values& in, const Attrs&) {
  const Term y(b, in[0]), dy(b, in[1]);
  return {dy * y * (1 - y)};
}
Values decompose_hard_sigmoid(Builder& b, const Values& in, const Attrs& a) {
  const Term y(b, in[0]), dy(b, in[1]);
  return {where(both(y > 0, y < 1), dy * a.f("alpha", 0.2), 0)};
}
Values decompose_swish(Builder& b, const Values& in, const Attrs& a) {
  const Term x(b, in[0]), dy(b, in[1]), ax = a.f("alpha", 1) * x, s = ax.to("Sigmoid");
  return {dy * (s + ax * s * (1 - s))};
}
Values decompose_hard_swish(Builder& b, const Values& in, const Attrs&) {
  const Term x(b, in[0]), dy(b, in[1]);
  return {where(x <= -3, x.like(0), where(x >= 3, dy, dy * (x / 3 + 0.5)))};
}
Values decompose_tanh(Builder& b, const Values& in, const Attrs&) {
  const Term y(b, in[0]), dy(b, in[1]);
  return {dy * (1 - y * y)};
}
Values decompose_softsign(Builder& b, const Values& in, const Attrs&) {
  const Term dy(b, in[1]), d = 1 + Term(b, in[0]).to("Abs");
  return {dy / (d * d)};
}
Values decompose_softplus(Builder& b, const Values& in, const Attrs&) {
  return {Term(b, in[1]) * Term(b, in[0]).to("Sigmoid")};
}
Values decompose_mish(Builder& b, const Values& in, const Attrs&) {
  const Term x(b, in[0]), dy(b, in[1]), e = x.at_most(20).to("Exp"), w = e * (e + 2), t = w / (w + 2);
  return {dy * (t + x * (1 - t * t) * x.to("Sigmoid"))};
}

const RegisterElementwise<Sigmoid> sigmoid{"Sigmoid", grad_from_y};
const RegisterElementwise<SigmoidGrad> sigmoid_grad{"SigmoidGrad", decompose_sigmoid};
const RegisterElementwise<HardSigmoid> hard_sigmoid{"HardSigmoid", grad_from_y};
const RegisterElementwise<HardSigmoidGrad> hard_sigmoid_grad{"HardSigmoidGrad", decompose_hard_sigmoid};
const RegisterElementwise<Swish> swish{"Swish", grad_from_x};
const RegisterElementwise<SwishGrad> swish_grad{"SwishGrad", decompose_swish};
const RegisterElementwise<HardSwish> hard_swish{"HardSwish", grad_from_x};
const RegisterElementwise<HardSwishGrad> hard_swish_grad{"HardSwishGrad", decompose_hard_swish};
const RegisterElementwise<Tanh> tanh_{"Tanh", grad_from_y};
const RegisterElementwise<TanhGrad> tanh_grad{"TanhGrad", decompose_tanh};
const RegisterElementwise<Softsign> softsign{"Softsign", grad_from_x};
const RegisterElementwise<SoftsignGrad> softsign_grad{"SoftsignGrad", decompose_softsign};
const RegisterElementwise<Softplus> softplus{"Softplus", grad_from_x};
const RegisterElementwise<SoftplusGrad> softplus_grad{"SoftplusGrad", decompose_softplus};
const RegisterElementwise<Mish> mish{"Mish", grad_from_x};
const RegisterElementwise<MishGrad> mish_grad{"MishGrad", decompose_mish};

// SwiGLU (ONNX 28): a sigmoid(alpha a) b.
void lower_swiglu(Lowering& l) {
  if (l.dims(0) != l.dims(1))
    fail(Exit::model, "E_SHAPE", cat("SwiGLU of ", to_string(l.dims(0)), " and ", to_string(l.dims(1))));
  const ValueId gate = l.b.op("Swish", {l.in(0)}, {{"alpha", l.attrs.f("alpha", 1)}});
  l.out(0, l.b.op("Mul", {gate, l.in(1)}));
}

const RegisterOnnx onnx[] = {
    RegisterOnnx{{"Sigmoid", lower_same_name, 6, {}}},  RegisterOnnx{{"HardSigmoid", lower_same_name, 6, {}}},
    RegisterOnnx{{"Swish", lower_same_name, 24, {}}},   RegisterOnnx{{"HardSwish", lower_same_name, 14, {}}},
    RegisterOnnx{{"Tanh", lower_same_name, 6, {}}},     RegisterOnnx{{"Softsign", lower_same_name, 1, {}}},
    RegisterOnnx{{"Softplus", lower_same_name, 1, {}}}, RegisterOnnx{{"Mish", lower_same_name, 18, {}}},
    RegisterOnnx{{"SwiGLU", lower_swiglu, 28, {}}}};

}  // namespace
}  // namespace amp
