// Lowerings of QuantizeLinear and related operators, for operators with quantized operands or results.
#pragma once

#include <vector>

#include "graph/lower.h"

namespace amp {

// clip(round(x / scale) + zero) as an integer of type t. scale and zero are floating-point and broadcast against x.
ValueId quantized(const Lowering&, ValueId x, ValueId scale, ValueId zero, DType t);
// Attribute that marks a Cast to integers whose input is integral already, so that a Cast back to floating-point may
// read the input.
inline constexpr const char* kWholeNumbers = "whole_numbers";
// Casts integral floating-point numbers to integers of type t.
ValueId as_integers(Builder& b, ValueId whole, DType t);
// The floating-point value from which quantized() or as_integers() cast the integer, so that gradients pass. For
// other integers, a cast to floating-point.
ValueId unquantized(Builder& b, ValueId q, DType f);

// Fails with E_SCALE_NONFINITE if one of `values`, the scales or zero points in input i of the node, is not finite:
// the whole output would not be either.
void require_finite(const Lowering&, size_t i, const std::vector<double>& values);

// Quantizes x to 256 steps between its extremes, 0 included (DynamicQuantizeLinear), as floating-point numbers.
struct Dynamic {
  ValueId q, scale, zero;
};
Dynamic dynamically_quantized(const Lowering&, ValueId x);

}  // namespace amp
