// Tan, Asin, Acos, Atan, Sinh, Cosh, Asinh, Acosh, Atanh: ONNX 7+; hyperbolic functions 9+.
#include <cmath>

#include "ops/elementwise_op.h"
#include "ops/term.h"

namespace amp {
namespace {

// <functors>: fused kernels are generated from this text (cmake/functors.cmake)
struct Tan : Unary {
  template <class T>
  HD T operator()(T x) const {
    return std::tan(x);
  }
};
struct TanGrad : Binary {
  template <class T>
  HD T operator()(T x, T dy) const {
    const T t = std::tan(x);
    return dy * (T(1) + t * t);
  }
};
struct Asin : Unary {
  template <class T>
  HD T operator()(T x) const {
    return std::asin(x);
  }
};
struct AsinGrad : Binary {
  template <class T>
  HD T operator()(T x, T dy) const {
    return dy / std::sqrt((T(1) - x) * (T(1) + x));
  }
};
struct Acos : Unary {
  template <class T>
  HD T operator()(T x) const {
    return std::acos(x);
  }
};
struct AcosGrad : Binary {
  template <class T>
  HD T operator()(T x, T dy) const {
    return -dy / std::sqrt((T(1) - x) * (T(1) + x));
  }
};
struct Atan : Unary {
  template <class T>
  HD T operator()(T x) const {
    return std::atan(x);
  }
};
struct AtanGrad : Binary {
  template <class T>
  HD T operator()(T x, T dy) const {
    return dy / (T(1) + x * x);
  }
};
struct Sinh : Unary {
  template <class T>
  HD T operator()(T x) const {
    return std::sinh(x);
  }
};
struct SinhGrad : Binary {
  template <class T>
  HD T operator()(T x, T dy) const {
    return dy * std::cosh(x);
  }
};
struct Cosh : Unary {
  template <class T>
  HD T operator()(T x) const {
    return std::cosh(x);
  }
};
struct CoshGrad : Binary {
  template <class T>
  HD T operator()(T x, T dy) const {
    return dy * std::sinh(x);
  }
};
struct Asinh : Unary {
  template <class T>
  HD T operator()(T x) const {
    return std::asinh(x);
  }
};
struct AsinhGrad : Binary {
  template <class T>
  HD T operator()(T x, T dy) const {
    return dy / std::sqrt(x * x + T(1));
  }
};
struct Acosh : Unary {
  template <class T>
  HD T operator()(T x) const {
    return std::acosh(x);
  }
};
struct AcoshGrad : Binary {
  template <class T>
  HD T operator()(T x, T dy) const {
    return dy / std::sqrt((x - T(1)) * (x + T(1)));
  }
};
struct Atanh : Unary {
  template <class T>
  HD T operator()(T x) const {
    return std::atanh(x);
  }
};
struct AtanhGrad : Binary {
  template <class T>
  HD T operator()(T x, T dy) const {
    return dy / ((T(1) - x) * (T(1) + x));
  }
};
// </functors>

void grad_from_x(GradBuilder& g) { g.add_grad(0, g.op(g.node().op->name + "Grad", {g.in(0), g.dy(0)})); }

// Decompositions of the gradients. The inputs are (x, dy).
using Values = std::vector<ValueId>;
Values decompose_tan(Builder& b, const Values& in, const Attrs&) {
  const Term dy(b, in[1]), t = Term(b, in[0]).to("Tan");
  return {dy * (1 + t * t)};
}
Values decompose_asin(Builder& b, const Values& in, const Attrs&) {
  const Term x(b, in[0]), dy(b, in[1]);
  return {dy / ((1 - x) * (1 + x)).to("Sqrt")};
}
Values decompose_acos(Builder& b, const Values& in, const Attrs& a) { return {-Term(b, decompose_asin(b, in, a)[0])}; }
Values decompose_atan(Builder& b, const Values& in, const Attrs&) {
  const Term x(b, in[0]), dy(b, in[1]);
  return {dy / (1 + x * x)};
}
Values decompose_sinh(Builder& b, const Values& in, const Attrs&) {
  return {Term(b, in[1]) * Term(b, in[0]).to("Cosh")};
}
Values decompose_cosh(Builder& b, const Values& in, const Attrs&) {
  return {Term(b, in[1]) * Term(b, in[0]).to("Sinh")};
}
Values decompose_asinh(Builder& b, const Values& in, const Attrs&) {
  const Term x(b, in[0]), dy(b, in[1]);
  return {dy / (x * x + 1).to("Sqrt")};
}
Values decompose_acosh(Builder& b, const Values& in, const Attrs&) {
  const Term x(b, in[0]), dy(b, in[1]);
  return {dy / ((x - 1) * (x + 1)).to("Sqrt")};
}
Values decompose_atanh(Builder& b, const Values& in, const Attrs&) {
  const Term x(b, in[0]), dy(b, in[1]);
  return {dy / ((1 - x) * (1 + x))};
}

const RegisterElementwise<Tan> tan_{"Tan", grad_from_x};
const RegisterElementwise<TanGrad> tan_grad{"TanGrad", decompose_tan};
const RegisterElementwise<Asin> asin_{"Asin", grad_from_x};
const RegisterElementwise<AsinGrad> asin_grad{"AsinGrad", decompose_asin};
const RegisterElementwise<Acos> acos_{"Acos", grad_from_x};
const RegisterElementwise<AcosGrad> acos_grad{"AcosGrad", decompose_acos};
const RegisterElementwise<Atan> atan_{"Atan", grad_from_x};
const RegisterElementwise<AtanGrad> atan_grad{"AtanGrad", decompose_atan};
const RegisterElementwise<Sinh> sinh_{"Sinh", grad_from_x};
const RegisterElementwise<SinhGrad> sinh_grad{"SinhGrad", decompose_sinh};
const RegisterElementwise<Cosh> cosh_{"Cosh", grad_from_x};
const RegisterElementwise<CoshGrad> cosh_grad{"CoshGrad", decompose_cosh};
const RegisterElementwise<Asinh> asinh_{"Asinh", grad_from_x};
const RegisterElementwise<AsinhGrad> asinh_grad{"AsinhGrad", decompose_asinh};
const RegisterElementwise<Acosh> acosh_{"Acosh", grad_from_x};
const RegisterElementwise<AcoshGrad> acosh_grad{"AcoshGrad", decompose_acosh};
const RegisterElementwise<Atanh> atanh_{"Atanh", grad_from_x};
const RegisterElementwise<AtanhGrad> atanh_grad{"AtanhGrad", decompose_atanh};

const RegisterOnnx onnx[] = {
    RegisterOnnx{{"Tan", lower_same_name, 7, {}}},   RegisterOnnx{{"Asin", lower_same_name, 7, {}}},
    RegisterOnnx{{"Acos", lower_same_name, 7, {}}},  RegisterOnnx{{"Atan", lower_same_name, 7, {}}},
    RegisterOnnx{{"Sinh", lower_same_name, 9, {}}},  RegisterOnnx{{"Cosh", lower_same_name, 9, {}}},
    RegisterOnnx{{"Asinh", lower_same_name, 9, {}}}, RegisterOnnx{{"Acosh", lower_same_name, 9, {}}},
    RegisterOnnx{{"Atanh", lower_same_name, 9, {}}}};

}  // namespace
}  // namespace amp
