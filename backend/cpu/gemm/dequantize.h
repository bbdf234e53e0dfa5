// Dequantizes a part of a matrix (backend/quantized_matrix.h), for products and lookups that read it packed.
#pragma once

#include "backend/quantized_matrix.h"

namespace amp::cpu {

// Writes elements [r0, r0 + rows) x [c0, c0 + columns) of m to `to`, row after row, as float32, float16 or bfloat16.
// Elements are computed in fp32, as (integer - zero point) * scale, and rounded to `dtype`. Runs on the calling thread.
void dequantize(const QuantizedMatrix& m, int64_t r0, int64_t rows, int64_t c0, int64_t columns, DType dtype, void* to);

}  // namespace amp::cpu
