// PRelu (ONNX 7+), Selu, Celu, Softsign, Mish, ThresholdedRelu, Shrink, Hardmax. NaN passes through forward.
#include <cmath>
#include <numeric>

#include "ops/elementwise_op.h"
#include "ops/term.h"

namespace amp {
namespace {

// <functors>: fused kernels are generated from this text (cmake/functors.cmake)
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

// gamma x for x > 0, else gamma alpha (e^x - 1). The defaults are the numbers whose fp32 roundings ONNX prints.
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

void grad_from_x(GradBuilder& g) { g.add_grad(0, g.op(g.node().op->name + "Grad", {g.in(0), g.dy(0)}, g.attrs())); }
void grad_prelu(GradBuilder& g) {
  if (g.needs(0)) g.add_grad(0, g.op("PReluGradX", {g.in(0), g.in(1), g.dy(0)}));
  if (g.needs(1)) g.add_grad(1, g.op("PReluGradSlope", {g.in(0), g.dy(0)}));
}

// Decompositions of the gradients, of (x, dy) except for the first. A branch that is not selected must still be
// finite.
using Values = std::vector<ValueId>;
Values decompose_prelu_x(Builder& b, const Values& in, const Attrs&) {
  const Term x(b, in[0]), slope(b, in[1]), dy(b, in[2]);
  return {where(x > 0, dy, dy * slope)};
}
Values decompose_prelu_slope(Builder& b, const Values& in, const Attrs&) {
  const Term x(b, in[0]), dy(b, in[1]);
  return {where(x > 0, x.like(0), dy * x)};
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
Values decompose_softsign(Builder& b, const Values& in, const Attrs&) {
  const Term dy(b, in[1]), d = 1 + Term(b, in[0]).to("Abs");
  return {dy / (d * d)};
}
Values decompose_mish(Builder& b, const Values& in, const Attrs&) {
  const Term x(b, in[0]), dy(b, in[1]), e = x.at_most(20).to("Exp"), w = e * (e + 2), t = w / (w + 2);
  return {dy * (t + x * (1 - t * t) * x.to("Sigmoid"))};
}
Values decompose_thresholded(Builder& b, const Values& in, const Attrs& a) {
  return {where(Term(b, in[0]) > a.f("alpha", 1), Term(b, in[1]), 0)};
}
Values decompose_shrink(Builder& b, const Values& in, const Attrs& a) {
  return {where(Term(b, in[0]).to("Abs") > a.f("lambd", 0.5), Term(b, in[1]), 0)};
}

const RegisterElementwise<PRelu> prelu{"PRelu", grad_prelu};
const RegisterElementwise<PReluGradX> prelu_grad_x{"PReluGradX", decompose_prelu_x};
const RegisterElementwise<PReluGradSlope> prelu_grad_slope{"PReluGradSlope", decompose_prelu_slope};
const RegisterElementwise<Selu> selu{"Selu", grad_from_x};
const RegisterElementwise<SeluGrad> selu_grad{"SeluGrad", decompose_selu};
const RegisterElementwise<Celu> celu{"Celu", grad_from_x};
const RegisterElementwise<CeluGrad> celu_grad{"CeluGrad", decompose_celu};
const RegisterElementwise<Softsign> softsign{"Softsign", grad_from_x};
const RegisterElementwise<SoftsignGrad> softsign_grad{"SoftsignGrad", decompose_softsign};
const RegisterElementwise<Mish> mish{"Mish", grad_from_x};
const RegisterElementwise<MishGrad> mish_grad{"MishGrad", decompose_mish};
const RegisterElementwise<ThresholdedRelu> thresholded_relu{"ThresholdedRelu", grad_from_x};
const RegisterElementwise<ThresholdedReluGrad> thresholded_relu_grad{"ThresholdedReluGrad", decompose_thresholded};
const RegisterElementwise<Shrink> shrink{"Shrink", grad_from_x};
const RegisterElementwise<ShrinkGrad> shrink_grad{"ShrinkGrad", decompose_shrink};

// 1 at the first largest element, else 0. Before opset 13 the dims from axis on are one.
void lower_hardmax(Lowering& l) {
  Builder& b = l.b;
  const Dims dims = l.dims(0);
  int64_t axis = normalize_axis(l.attrs.i("axis", l.version() < 13 ? 1 : -1), l.rank(0));
  ValueId x = l.in(0);
  if (l.version() < 13) {
    int64_t cols = 1;
    for (size_t d = static_cast<size_t>(axis); d < dims.size(); ++d) cols *= dims[d];
    x = b.reshape(x, {cols > 0 ? numel(dims) / cols : 0, cols});
    axis = 1;
  }
  Dims line(b.dims(x).size(), 1);
  const int64_t n = line[static_cast<size_t>(axis)] = b.dims(x)[static_cast<size_t>(axis)];
  std::vector<int64_t> positions(static_cast<size_t>(n));
  std::iota(positions.begin(), positions.end(), int64_t{0});
  const ValueId top =
      b.op("ArgMax", {x}, {{"axis", axis}, {"keepdims", int64_t{1}}, {"select_last_index", int64_t{0}}});
  const ValueId hit = b.op("Equal", {top, b.constant(HostTensor::of<int64_t>(line, positions))});
  l.out(0, b.reshape(b.cast(hit, b.dtype(x)), dims));
}

const RegisterOnnx onnx[] = {
    RegisterOnnx{{"PRelu", lower_same_name, 7, {}}},  RegisterOnnx{{"Selu", lower_same_name, 6, {}}},
    RegisterOnnx{{"Celu", lower_same_name, 12, {}}},  RegisterOnnx{{"Softsign", lower_same_name, 1, {}}},
    RegisterOnnx{{"Mish", lower_same_name, 18, {}}},  RegisterOnnx{{"ThresholdedRelu", lower_same_name, 10, {}}},
    RegisterOnnx{{"Shrink", lower_same_name, 9, {}}}, RegisterOnnx{{"Hardmax", lower_hardmax, 1, {}}}};

}  // namespace
}  // namespace amp
