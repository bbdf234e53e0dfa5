// Core operator DequantizeMatrix: a weight that is stored as integers of a few bits (backend/quantized_matrix.h),
// converted to floating point. Inputs: the integers, the scales, and optionally zero points. Output: (rows, columns),
// in the type `to` or, without this attribute, in the scales' type.
#pragma once

#include "backend/kernel.h"
#include "backend/quantized_matrix.h"
#include "graph/builder.h"

namespace amp {

// Adds a DequantizeMatrix node of constants. The addresses in `form` are not used. zeros: the zero points, or invalid.
ValueId dequantized_matrix(Builder& b, const QuantizedMatrix& form, ValueId data, ValueId scales, ValueId zeros);

}  // namespace amp
