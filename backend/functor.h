// Base class of elementwise functors: number and types of the operands.
#pragma once

#include <cstddef>

// <functors>: fused kernels are generated from the text up to </functors> (cmake/functors.cmake).
namespace amp {

// Types of elements that a functor supports. A functor names one of these as its Domain.
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
