// The operations of CPU attention on a block of scores that are not products: softmax and its gradient, in fp32,
// one row at a time.
#pragma once

#include <cstdint>

#include "backend/kernel.h"

namespace amp::attention_detail {

// A block of scores: one row per query, one column per key. Consecutive rows are `ld` elements apart. Elements after a
// row's last key, up to the next multiple of 16, may be overwritten.
struct ScoreRows {
  int64_t rows, keys, ld;
  float scale;  // factor of the scores z; at least 0
};

// Replaces z by exp(scale z - top), and by 0 after the last key. Sets top to scale times the row's
// maximum, and sum to the sum of the exponentials.
void softmax_rows(const ScoreRows& r, float* z, float* top, float* sum);

// Outputs 1 and 2 of FusedAttention (lse, rest) for one query (ops/fused_attention.h).
template <class T>
struct LogSum {
  T lse, rest;
};

// Replaces z by p = exp(scale z - lse - rest), and g by p (g - d). If dropout factors are given (rows `ld` apart),
// replaces z by p factor and g by p (g factor - d) instead. Exponents are computed relative to the row's maximum,
// as in forward, so p is as accurate for scores of 1e9 as for scores of 1.
void differentiate_rows(const ScoreRows& r, float* z, float* g, const LogSum<float>* sums, const float* d,
                        const float* factor);

// Rows of a matrix stored as fp32, fp16 or bf16.
struct StoredRows {
  const void* data;
  DType dtype;
  int64_t ld;
};
// Sets to[i] to the dot product of rows i of x and y. scratch: 2 * width floats.
void row_dots(const StoredRows& x, const StoredRows& y, int64_t rows, int64_t width, float* to, float* scratch);

// Sets row i of `to` (rows, width) to factor[i * step] times row i of x. Overwrites x if `to` is not fp32.
void store_rows(float* x, int64_t ld, int64_t rows, int64_t width, const float* factor, int64_t step,
                const StoredRows& to);

}  // namespace amp::attention_detail
