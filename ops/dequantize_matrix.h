// Core DequantizeMatrix: a weight that is stored as integers of a few bits (backend/quantized_matrix.h), in floating
// point. Inputs: the integers, the scales, and zero points or nothing. Output: (rows, columns), of the type `to`, or of
// the scales' type without this attribute.
#pragma once

#include "backend/kernel.h"
#include "backend/quantized_matrix.h"
#include "graph/builder.h"

namespace amp {

// Adds a DequantizeMatrix node of constants. The addresses in `form` are not used. `zeros` may be invalid.
ValueId dequantized_matrix(Builder& b, const QuantizedMatrix& form, ValueId data, ValueId scales, ValueId zeros);

}  // namespace amp
