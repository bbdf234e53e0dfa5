// The lowerings of QuantizeLinear and its kin, for operators with quantized operands or results.
#pragma once

#include "graph/lower.h"

namespace amp {

// clip(round(x / scale) + zero) as an integer of type t. scale and zero are floating and broadcast against x.
ValueId quantized(const Lowering&, ValueId x, ValueId scale, ValueId zero, DType t);
// On a Cast to integers: its input holds integers already, so that a Cast back may read that.
inline constexpr const char* kWholeNumbers = "whole_numbers";
// Floating numbers that hold integers, as integers of type t.
ValueId as_integers(Builder& b, ValueId whole, DType t);
// The floating number that an integer was cast from by quantized() or as_integers(), else the integer as a floating
// number: gradients pass.
ValueId unquantized(Builder& b, ValueId q, DType f);

// x in 256 steps between its extremes, 0 included (DynamicQuantizeLinear), as floating numbers.
struct Dynamic {
  ValueId q, scale, zero;
};
Dynamic dynamically_quantized(const Lowering&, ValueId x);

}  // namespace amp
