// What attention does to a block of scores on the CPU between its products, in fp32: softmax and its gradient, a row
// at a time.
#pragma once

#include <cstdint>

#include "backend/kernel.h"

namespace amp::attention_detail {

// (rows, keys), `ld` apart; what lies between keys and the next multiple of 16 may be written.
struct ScoreRows {
  int64_t rows, keys, ld;
  float scale;  // at least 0, of z
};

// z -> exp(scale z - top), 0 behind the keys; top: scale times the row's maximum; sum: of the exponentials.
void softmax_rows(const ScoreRows& r, float* z, float* top, float* sum);

// A row's outputs 1 and 2 (ops/fused_attention.h).
template <class T>
struct LogSum {
  T lse, rest;
};

// z -> p = exp(scale z - lse - rest), g -> p (g - d). factor (ld apart), of dropout, or null: z -> p factor,
// g -> p (g factor - d). Exponents are measured from the row's maximum, as forward measured them: p is as accurate for
// scores of 1e9 as for scores of 1.
void differentiate_rows(const ScoreRows& r, float* z, float* g, const LogSum<float>* sums, const float* d,
                        const float* factor);

// Rows of a matrix that is stored as fp32, fp16 or bf16.
struct StoredRows {
  const void* data;
  DType dtype;
  int64_t ld;
};
// to[i] = x_i y_i. scratch: 2 width.
void row_dots(const StoredRows& x, const StoredRows& y, int64_t rows, int64_t width, float* to, float* scratch);

// to (rows, width) = factor x, factor[i * step] of row i; x is changed where `to` is not fp32.
void store_rows(float* x, int64_t ld, int64_t rows, int64_t width, const float* factor, int64_t step,
                const StoredRows& to);

}  // namespace amp::attention_detail
