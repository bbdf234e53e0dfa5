// Activations whose gradient is one functor of (x or y, dy): Relu, Sigmoid, Tanh, LeakyRelu, Elu, HardSigmoid,
// HardSwish, Softplus, Swish. ONNX 6+. Comparisons are written so that NaN passes through forward, because an
// overflow must remain visible.
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
// </functors>

void grad_from_y(GradBuilder& g) { g.add_grad(0, g.op(g.node().op->name + "Grad", {g.out(0), g.dy(0)}, g.attrs())); }
void grad_from_x(GradBuilder& g) { g.add_grad(0, g.op(g.node().op->name + "Grad", {g.in(0), g.dy(0)}, g.attrs())); }

// Decompositions of the gradients, of (x or y, dy). A branch that is not selected must still be finite, because its
// derivative is multiplied by 0.
using Values = std::vector<ValueId>;
Values decompose_relu(Builder& b, const Values& in, const Attrs&) {
  return {where(Term(b, in[0]) > 0, Term(b, in[1]), 0)};
}
Values decompose_sigmoid(Builder& b, const Values& in, const Attrs&) {
  const Term y(b, in[0]), dy(b, in[1]);
  return {dy * y * (1 - y)};
}
Values decompose_tanh(Builder& b, const Values& in, const Attrs&) {
  const Term y(b, in[0]), dy(b, in[1]);
  return {dy * (1 - y * y)};
}
Values decompose_leaky(Builder& b, const Values& in, const Attrs& a) {
  const Term x(b, in[0]), dy(b, in[1]);
  return {where(x < 0, dy * a.f("alpha", 0.01), dy)};
}
Values decompose_elu(Builder& b, const Values& in, const Attrs& a) {
  const Term x(b, in[0]), dy(b, in[1]);
  return {where(x < 0, dy * a.f("alpha", 1) * x.at_most(0).to("Exp"), dy)};
}
Values decompose_hard_sigmoid(Builder& b, const Values& in, const Attrs& a) {
  const Term y(b, in[0]), dy(b, in[1]);
  return {where(both(y > 0, y < 1), dy * a.f("alpha", 0.2), 0)};
}
Values decompose_hard_swish(Builder& b, const Values& in, const Attrs&) {
  const Term x(b, in[0]), dy(b, in[1]);
  return {where(x <= -3, x.like(0), where(x >= 3, dy, dy * (x / 3 + 0.5)))};
}
Values decompose_softplus(Builder& b, const Values& in, const Attrs&) {
  return {Term(b, in[1]) * Term(b, in[0]).to("Sigmoid")};
}
Values decompose_swish(Builder& b, const Values& in, const Attrs& a) {
  const Term x(b, in[0]), dy(b, in[1]), ax = a.f("alpha", 1) * x, s = ax.to("Sigmoid");
  return {dy * (s + ax * s * (1 - s))};
}

const RegisterElementwise<Relu> relu{"Relu", grad_from_y};
const RegisterElementwise<ReluGrad> relu_grad{"ReluGrad", decompose_relu};
const RegisterElementwise<Sigmoid> sigmoid{"Sigmoid", grad_from_y};
const RegisterElementwise<SigmoidGrad> sigmoid_grad{"SigmoidGrad", decompose_sigmoid};
const RegisterElementwise<Tanh> tanh_{"Tanh", grad_from_y};
const RegisterElementwise<TanhGrad> tanh_grad{"TanhGrad", decompose_tanh};
const RegisterElementwise<LeakyRelu> leaky{"LeakyRelu", grad_from_x};
const RegisterElementwise<LeakyReluGrad> leaky_grad{"LeakyReluGrad", decompose_leaky};
const RegisterElementwise<Elu> elu{"Elu", grad_from_x};
const RegisterElementwise<EluGrad> elu_grad{"EluGrad", decompose_elu};
const RegisterElementwise<HardSigmoid> hard_sigmoid{"HardSigmoid", grad_from_y};
const RegisterElementwise<HardSigmoidGrad> hard_sigmoid_grad{"HardSigmoidGrad", decompose_hard_sigmoid};
const RegisterElementwise<HardSwish> hard_swish{"HardSwish", grad_from_x};
const RegisterElementwise<HardSwishGrad> hard_swish_grad{"HardSwishGrad", decompose_hard_swish};
const RegisterElementwise<Softplus> softplus{"Softplus", grad_from_x};
const RegisterElementwise<SoftplusGrad> softplus_grad{"SoftplusGrad", decompose_softplus};
const RegisterElementwise<Swish> swish{"Swish", grad_from_x};
const RegisterElementwise<SwishGrad> swish_grad{"SwishGrad", decompose_swish};

const RegisterOnnx onnx[] = {
    RegisterOnnx{{"Relu", lower_same_name, 6, {}}},       RegisterOnnx{{"Sigmoid", lower_same_name, 6, {}}},
    RegisterOnnx{{"Tanh", lower_same_name, 6, {}}},       RegisterOnnx{{"LeakyRelu", lower_same_name, 6, {}}},
    RegisterOnnx{{"Elu", lower_same_name, 6, {}}},        RegisterOnnx{{"HardSigmoid", lower_same_name, 6, {}}},
    RegisterOnnx{{"HardSwish", lower_same_name, 14, {}}}, RegisterOnnx{{"Softplus", lower_same_name, 1, {}}},
    RegisterOnnx{{"Swish", lower_same_name, 24, {}}}};

}  // namespace
}  // namespace amp
