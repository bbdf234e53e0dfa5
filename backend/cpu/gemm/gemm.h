// Matrix products of one type on the CPU: fp32 by packed_gemm.h, fp64 by a plain loop nest (the reference).
#pragma once

#include <cstdint>

namespace amp::cpu {

// Computes the row-major C[m,n] = alpha * op(A) op(B) + beta * C on the calling thread. op(A) is m x k: A is stored as
// m x k (lda >= k), or as k x m if transposed (lda >= m). op(B) is k x n: B is stored as k x n, or as n x k if
// transposed.
void gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda,
          const float* b, int64_t ldb, float beta, float* c, int64_t ldc);
void gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, double alpha, const double* a, int64_t lda,
          const double* b, int64_t ldb, double beta, double* c, int64_t ldc);

// Like gemm(), but runs on all threads and adds bias[n], if given, to every row. The output is divided into shards by
// shape only, so the bits do not depend on the number of threads.
template <class T>
void parallel_gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a, int64_t lda,
                   const T* b, int64_t ldb, T beta, T* c, int64_t ldc, const T* bias = nullptr);

}  // namespace amp::cpu
