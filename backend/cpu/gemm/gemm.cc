// fp32 products call PackedGemm; fp64 products use a plain loop nest, which is the reference for tests.
// parallel_gemm divides the output into shards by shape only, so results do not depend on the number of threads.

#include "backend/cpu/gemm/gemm.h"

#include <algorithm>

#include "backend/cpu/gemm/packed_gemm.h"
#include "backend/parallel.h"
#include "base/simd.h"

namespace amp::cpu {

void gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda,
          const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  if (m == 0 || n == 0) return;
  if (k == 0 || (beta != 0 && beta != 1)) {  // cases that a packed product does not support
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) c[i * ldc + j] = beta == 0 ? 0.0f : beta * c[i * ldc + j];
    }
    if (k == 0) return;
  }
  PackedGemm g;
  g.m = m, g.n = n, g.k = k;
  g.alpha = alpha;
  g.a = {a, DType::f32, lda, trans_a};
  g.b = {b, DType::f32, ldb, trans_b};
  g.c = c, g.ldc = ldc;
  g.accumulate = beta != 0;
  g.run_here();
}

void gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, double alpha, const double* a, int64_t lda,
          const double* b, int64_t ldb, double beta, double* c, int64_t ldc) {
  simd([=]() AMP_INLINE {
    for (int64_t i = 0; i < m; ++i) {
      double* row = c + i * ldc;
      for (int64_t j = 0; j < n; ++j) row[j] = beta == 0 ? 0.0 : beta * row[j];
      for (int64_t p = 0; p < k; ++p) {
        const double x = alpha * (trans_a ? a[p * lda + i] : a[i * lda + p]);
        if (trans_b) {
          for (int64_t j = 0; j < n; ++j) row[j] += x * b[j * ldb + p];
        } else {
          for (int64_t j = 0; j < n; ++j) row[j] += x * b[p * ldb + j];
        }
      }
    }
  });
}

template <class T>
void parallel_gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a, int64_t lda,
                   const T* b, int64_t ldb, T beta, T* c, int64_t ldc, const T* bias) {
  const auto add_bias = [&](int64_t rows, int64_t cols, const T* v, T* to) {  // called while the shard is in cache
    if (!bias) return;
    simd([=]() AMP_INLINE {
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < cols; ++j) to[i * ldc + j] += v[j];
      }
    });
  };
  const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const int64_t shards = flops < 2e6 ? 1 : flops < 1e9 ? 4 : 16;
  if (m >= n) {
    const int64_t step = std::max<int64_t>(1, (m / shards + 15) / 16 * 16);
    parallel_for((m + step - 1) / step, [&](int64_t s) {
      const int64_t at = s * step;
      gemm(trans_a, trans_b, std::min(step, m - at), n, k, alpha, a + (trans_a ? at : at * lda), lda, b, ldb, beta,
           c + at * ldc, ldc);
      add_bias(std::min(step, m - at), n, bias, c + at * ldc);
    });
  } else {
    const int64_t step = std::max<int64_t>(1, (n / shards + 15) / 16 * 16);
    parallel_for((n + step - 1) / step, [&](int64_t s) {
      const int64_t at = s * step;
      gemm(trans_a, trans_b, m, std::min(step, n - at), k, alpha, a, lda, b + (trans_b ? at * ldb : at), ldb, beta,
           c + at, ldc);
      add_bias(m, std::min(step, n - at), bias ? bias + at : nullptr, c + at);
    });
  }
}

template void parallel_gemm<float>(bool, bool, int64_t, int64_t, int64_t, float, const float*, int64_t, const float*,
                                   int64_t, float, float*, int64_t, const float*);
template void parallel_gemm<double>(bool, bool, int64_t, int64_t, int64_t, double, const double*, int64_t,
                                    const double*, int64_t, double, double*, int64_t, const double*);

}  // namespace amp::cpu
