// The lowerings of QuantizeLinear and its kin, for operators with quantized operands or results.
#pragma once

#include "graph/lower.h"

namespace amp {

// clip(round(x / scale) + zero) as an integer of type t. scale and zero are floating and broadcast against x.
ValueId quantized(const Lowering&, ValueId x, ValueId scale, ValueId zero, DType t);
// The floating number that an integer was cast from by quantized(), else the integer as a floating number: gradients
// pass.
ValueId unquantized(Builder& b, ValueId q, DType f);

// x in 256 steps between its extremes, 0 included (DynamicQuantizeLinear), as floating numbers.
struct Dynamic {
  ValueId q, scale, zero;
};
Dynamic dynamically_quantized(const Lowering&, ValueId x);

}  // namespace amp
