// Base class of elementwise functors: number and types of the operands.
#pragma once

#include <cstddef>

// <functors>: fused kernels are generated from this text (cmake/functors.cmake)
namespace amp {

// The element types that a functor supports in addition to floating-point ones.
struct FloatsOnly {
  static constexpr bool integers = false, booleans = false;
};
struct FloatsAndInts {
  static constexpr bool integers = true, booleans = false;
};
struct BooleansOnly {
  static constexpr bool integers = false, booleans = true;
};
struct AnyType {
  static constexpr bool integers = true, booleans = true;
};

template <size_t N, class D = FloatsOnly>
struct Functor {
  static constexpr size_t arity = N;
  using Domain = D;
};
using Unary = Functor<1>;
using Binary = Functor<2>;
using Ternary = Functor<3>;

}  // namespace amp
// </functors>
