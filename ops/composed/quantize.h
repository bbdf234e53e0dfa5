// Lowerings of QuantizeLinear and related operators, shared by other operators with quantized operands or results.
#pragma once

#include <vector>

#include "graph/lower.h"

namespace amp {

// Returns clip(round(x / scale) + zero) as an integer of type t. scale and zero: floating-point, broadcast against x.
ValueId quantized(const Lowering&, ValueId x, ValueId scale, ValueId zero, DType t);
// Attribute that marks a Cast to integers whose input already has integral values. A Cast back to floating-point may
// then read that input.
inline constexpr const char* kWholeNumbers = "whole_numbers";
// Casts integral floating-point numbers to integers of type t.
ValueId as_integers(Builder& b, ValueId whole, DType t);
// Returns the floating-point value that quantized() or as_integers() cast to q, so that gradients pass. For
// other integers, returns a cast to floating-point.
ValueId unquantized(Builder& b, ValueId q, DType f);

// Fails with E_SCALE_NONFINITE if one of `values` is not finite, because the whole output would be non-finite.
// values: the scales or zero points in input i of the node.
void require_finite(const Lowering&, size_t i, const std::vector<double>& values);

// The result of DynamicQuantizeLinear as floating-point numbers: x quantized to 256 steps between its extremes and 0.
struct Dynamic {
  ValueId q, scale, zero;
};
Dynamic dynamically_quantized(const Lowering&, ValueId x);

}  // namespace amp
