// Matrix products of 32- and 16-bit floats on the CPU. Operands are converted while they are packed, panel by
// panel. Sums are fp32; products of two bf16 matrices use AMX or avx512_bf16 if the CPU has them. Results are
// converted before they leave the cache.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace amp {
struct QuantizedMatrix;  // declared in backend/quantized_matrix.h
}

namespace amp::cpu {

// Computes the row-major C[m, n] = alpha op(A) op(B) + bias[n] or row_bias[m], or adds it to C if `accumulate`. op(A)
// is m x k: A is stored as m x k, or as k x m if transposed. op(B) is k x n: B is stored as k x n, or as n x k if
// transposed.
struct PackedGemm {
  struct Operand {
    const void* data = nullptr;
    DType dtype = DType::f32;  // f32, f16 or bf16
    int64_t ld = 0;            // elements between stored rows
    bool trans = false;
    // Only for b. If not null, the operand is this matrix, rounded to dtype, and data and ld are not used. The matrix
    // is dequantized while it is packed.
    const QuantizedMatrix* quantized = nullptr;
  };

  int64_t m = 0, n = 0, k = 0;
  float alpha = 1;
  Operand a, b;
  void* c = nullptr;
  DType c_dtype = DType::f32;
  int64_t ldc = 0;
  const void* bias = nullptr;      // one per column, or null
  const void* row_bias = nullptr;  // one per row, or null; requires bias to be null
  DType bias_dtype = DType::f32;
  bool accumulate = false;  // requires an fp32 C
  float* a_sums = nullptr;  // (m): sums of op(A) along k, in order; requires A stored as k x m
  float* b_sums = nullptr;  // (n): sums of op(B) along k, in order; requires B stored as k x n

  int64_t workspace() const;        // bytes that run() needs; depends on shape and types only
  void run(void* workspace) const;  // runs on all threads; same bits for any number of threads
  void run_here() const;            // runs on the calling thread; panels use memory that the thread keeps
};

}  // namespace amp::cpu
