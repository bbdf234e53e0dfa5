// Gelu: ONNX 20 (approximate none, tanh), com.microsoft Gelu, BiasGelu, FastGelu, QuickGelu.
//   none: x/2 (1 + erf(x / sqrt 2));  tanh: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)));  quick: x sigmoid(1.702 x)
#include "base/normal.h"
#include "ops/elementwise_op.h"
#include "ops/term.h"

namespace amp {
namespace {

// AMP_INLINE is needed: without it, larger functors exceed the inliner's limit, and a loop with a call is not
// vectorized.
// <functors>: fused kernels are generated from this text (cmake/functors.cmake)
struct Gelu : Unary {
  static constexpr bool wide = true;
  template <class T>
  HD T operator()(T x) const {
    return x * math::normal_cdf(x);
  }
};
struct GeluGrad : Binary {
  static constexpr bool wide = true;
  template <class T>
  AMP_INLINE HD T operator()(T x, T dy) const {
    return dy * math::gelu_slope(x);
  }
};
// Computes (1 + tanh(z)) / 2 as the logistic function of 2 z, which is more accurate for negative x.
struct GeluTanh : Unary {
  static constexpr bool wide = true;
  template <class T>
  HD T operator()(T x) const {
    return x * math::gate(T(1.5957691216057308) * (x + T(0.044715) * x * x * x));
  }
};
struct GeluTanhGrad : Binary {
  static constexpr bool wide = true;
  template <class T>
  AMP_INLINE HD T operator()(T x, T dy) const {
    const T s = T(0.044715) * x * x, g = math::gate(T(1.5957691216057308) * (x + s * x));
    return dy * (g + x * g * (T(1) - g) * T(1.5957691216057308) * (T(1) + T(3) * s));
  }
};
// </functors>

void grad(GradBuilder& g) { g.add_grad(0, g.op(g.node().op->name + "Grad", {g.in(0), g.dy(0)})); }

// Decompositions of the gradients of GELU's forms. The inputs are (x, dy).
std::vector<ValueId> decompose_gelu(Builder& b, const std::vector<ValueId>& in, const Attrs&) {
  const Term x(b, in[0]), dy(b, in[1]), cdf = 0.5 * (1 + (x * 0.70710678118654752).to("Erf"));
  return {dy * (cdf + x * 0.39894228040143268 * (-0.5 * x * x).to("Exp"))};
}
std::vector<ValueId> decompose_gelu_tanh(Builder& b, const std::vector<ValueId>& in, const Attrs&) {
  const double k = 0.79788456080286536, c = 0.044715;
  const Term x(b, in[0]), dy(b, in[1]), t = (k * (x + c * x * x * x)).to("Tanh"), inner = k * (1 + 3 * c * x * x);
  return {dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner)};
}

const RegisterElementwise<Gelu> gelu{"Gelu", grad};
const RegisterElementwise<GeluGrad> gelu_grad{"GeluGrad", decompose_gelu};
const RegisterElementwise<GeluTanh> gelu_tanh{"GeluTanh", grad};
const RegisterElementwise<GeluTanhGrad> gelu_tanh_grad{"GeluTanhGrad", decompose_gelu_tanh};

void lower_gelu(Lowering& l) {
  l.out(0, l.b.op(l.attrs.s("approximate", "none") == "tanh" ? "GeluTanh" : "Gelu", {l.in(0)}));
}
void lower_fast_gelu(Lowering& l) {
  const ValueId x = l.has(1) ? l.b.op("Add", {l.in(0), l.in(1)}) : l.in(0);
  l.out(0, l.b.op("GeluTanh", {x}));
}
void lower_quick_gelu(Lowering& l) { l.out(0, l.b.op("Swish", {l.in(0)}, {{"alpha", l.attrs.f("alpha", 1.702)}})); }
void lower_bias_gelu(Lowering& l) { l.out(0, l.b.op("Gelu", {l.b.op("Add", {l.in(0), l.in(1)})})); }

const RegisterOnnx onnx[] = {RegisterOnnx{{"Gelu", lower_gelu, 20, {}}},
                             RegisterOnnx{{"Gelu", lower_gelu, 1, "com.microsoft"}},
                             RegisterOnnx{{"FastGelu", lower_fast_gelu, 1, "com.microsoft"}},
                             RegisterOnnx{{"QuickGelu", lower_quick_gelu, 1, "com.microsoft"}},
                             RegisterOnnx{{"BiasGelu", lower_bias_gelu, 1, "com.microsoft"}}};

}  // namespace
}  // namespace amp
