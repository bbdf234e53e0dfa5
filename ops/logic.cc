// Comparisons and boolean logic: Equal, Greater(OrEqual), Less(OrEqual), And, Or, Xor, Not, IsNaN, IsInf. They have no
// gradient.
#include <cmath>

#include "ops/elementwise_op.h"

namespace amp {
namespace {

// <functors>: fused kernels are generated from this text (cmake/functors.cmake)
struct Equal : Functor<2, AnyType> {
  template <class T>
  HD bool operator()(T a, T b) const {
    return a == b;
  }
};
struct Greater : Functor<2, FloatsAndInts> {
  template <class T>
  HD bool operator()(T a, T b) const {
    return a > b;
  }
};
struct GreaterOrEqual : Functor<2, FloatsAndInts> {
  template <class T>
  HD bool operator()(T a, T b) const {
    return a >= b;
  }
};
struct Less : Functor<2, FloatsAndInts> {
  template <class T>
  HD bool operator()(T a, T b) const {
    return a < b;
  }
};
struct LessOrEqual : Functor<2, FloatsAndInts> {
  template <class T>
  HD bool operator()(T a, T b) const {
    return a <= b;
  }
};
struct And : Functor<2, BooleansOnly> {
  template <class T>
  HD bool operator()(T a, T b) const {
    return a && b;
  }
};
struct Or : Functor<2, BooleansOnly> {
  template <class T>
  HD bool operator()(T a, T b) const {
    return a || b;
  }
};
struct Xor : Functor<2, BooleansOnly> {
  template <class T>
  HD bool operator()(T a, T b) const {
    return a != b;
  }
};
struct Not : Functor<1, BooleansOnly> {
  template <class T>
  HD bool operator()(T a) const {
    return !a;
  }
};
struct IsNaN : Unary {
  template <class T>
  HD bool operator()(T x) const {
    return x != x;
  }
};
struct IsInf : Unary {
  explicit IsInf(const Attrs& a) : negative(a.i("detect_negative", 1) != 0), positive(a.i("detect_positive", 1) != 0) {}
  template <class T>
  HD bool operator()(T x) const {
    const bool inf = x - x != x - x && x == x;
    return inf && (x > T(0) ? positive : negative);
  }
  bool negative, positive;
};
// </functors>

const RegisterElementwise<Equal> equal{"Equal"};
const RegisterElementwise<Greater> greater_{"Greater"};
const RegisterElementwise<GreaterOrEqual> greater_or_equal{"GreaterOrEqual"};
const RegisterElementwise<Less> less_{"Less"};
const RegisterElementwise<LessOrEqual> less_or_equal{"LessOrEqual"};
const RegisterElementwise<And> and_{"And"};
const RegisterElementwise<Or> or_{"Or"};
const RegisterElementwise<Xor> xor_{"Xor"};
const RegisterElementwise<Not> not_{"Not"};
const RegisterElementwise<IsNaN> is_nan{"IsNaN"};
const RegisterElementwise<IsInf> is_inf{"IsInf"};

const RegisterOnnx onnx[] = {RegisterOnnx{{"Equal", lower_same_name, 7, {}}},
                             RegisterOnnx{{"Greater", lower_same_name, 7, {}}},
                             RegisterOnnx{{"GreaterOrEqual", lower_same_name, 12, {}}},
                             RegisterOnnx{{"Less", lower_same_name, 7, {}}},
                             RegisterOnnx{{"LessOrEqual", lower_same_name, 12, {}}},
                             RegisterOnnx{{"And", lower_same_name, 7, {}}},
                             RegisterOnnx{{"Or", lower_same_name, 7, {}}},
                             RegisterOnnx{{"Xor", lower_same_name, 7, {}}},
                             RegisterOnnx{{"Not", lower_same_name, 1, {}}},
                             RegisterOnnx{{"IsNaN", lower_same_name, 9, {}}},
                             RegisterOnnx{{"IsInf", lower_same_name, 10, {}}}};

}  // namespace
}  // namespace amp
