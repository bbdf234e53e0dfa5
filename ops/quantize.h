// The lowering of QuantizeLinear, for operators whose result is quantized.
#pragma once

#include "graph/lower.h"

namespace amp {

// clip(round(x / scale) + zero) as an integer of type t. scale and zero are floating and broadcast against x.
ValueId quantized(const Lowering&, ValueId x, ValueId scale, ValueId zero, DType t);

}  // namespace amp
