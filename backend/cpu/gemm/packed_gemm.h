// Matrix products of 32- and 16-bit floats on the CPU: operands are converted as they are packed, panel by panel, sums
// are fp32 (products of two bf16 matrices run in AMX or avx512_bf16 where the CPU has them), results are converted as
// they leave the cache.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace amp::cpu {

// Row-major C[m, n] = alpha op(A) op(B) + bias[n] or row_bias[m], added to C when it accumulates. op(A) is m x k:
// stored m x k, or k x m when transposed; likewise B, k x n.
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
  bool accumulate = false;  // C is fp32 then
  float* a_sums = nullptr;  // m: the sums of op(A) along k, in order, where A is stored k x m
  float* b_sums = nullptr;  // n: those of op(B), where B is stored k x n

  int64_t workspace() const;        // bytes that run() takes, from the shape and the types alone
  void run(void* workspace) const;  // on all threads; the same bits for any number of them
  void run_here() const;            // on the calling thread; panels live in memory that the thread keeps
};

}  // namespace amp::cpu
