// Matrix products of 32- and 16-bit floats on the CPU. Operands are converted while they are packed, panel by
// panel. Sums are fp32; products of two bf16 matrices use AMX or avx512_bf16 if the CPU has them. Results are
// converted before they leave the cache.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace amp::cpu {

// Row-major C[m, n] = alpha op(A) op(B) + bias[n] or row_bias[m], added to C if `accumulate`. op(A) is m x k:
// stored m x k, or k x m if transposed. op(B) is k x n, likewise.
struct PackedGemm {
  struct Operand {
    const void* data = nullptr;
    DType dtype = DType::f32;  // f32, f16 or bf16
    int64_t ld = 0;            // elements between stored rows
    bool trans = false;
  };

  int64_t m = 0, n = 0, k = 0;
  float alpha = 1;
  Operand a, b;
  void* c = nullptr;
  DType c_dtype = DType::f32;
  int64_t ldc = 0;
  const void* bias = nullptr;      // one per column, or null
  const void* row_bias = nullptr;  // or one per row instead
  DType bias_dtype = DType::f32;
  bool accumulate = false;  // C must be fp32 then
  float* a_sums = nullptr;  // (m): sums of op(A) along k, in order; requires A stored as k x m
  float* b_sums = nullptr;  // (n): sums of op(B); requires B stored as k x n

  int64_t workspace() const;        // bytes for run(), from shape and types only
  void run(void* workspace) const;  // on all threads; the same bits for any number of them
  void run_here() const;            // on the calling thread; panels use memory that the thread keeps
};

}  // namespace amp::cpu
