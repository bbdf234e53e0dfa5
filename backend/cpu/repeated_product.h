// A product with the same right-hand side many times over, few rows at a time: the state of a recurrent layer by its
// weights, at every step. In fp32 the right-hand side is packed once; the same bits for any number of threads.
#pragma once

#include "backend/cpu/gemm.h"
#include "backend/cpu/workspace.h"

namespace amp::cpu {

template <class T>
class RepeatedProduct {
 public:
  // b (k, n), or its transpose (n, k), `ldb` apart.
  RepeatedProduct(Carver& carve, int64_t k, int64_t n, bool transposed, int64_t ldb)
      : k_(k), n_(n), ldb_(ldb), transposed_(transposed), packs_(std::is_same_v<T, float> && n % 16 == 0) {
    if (packs_) packed_ = carve.take<T>(k * n);
  }
  RepeatedProduct packed(const T* b) const;                                            // ready to run; b must stay
  void run(int64_t rows, const T* a, int64_t lda, bool add, T* c, int64_t ldc) const;  // c (rows, n) = or += a b

 private:
  int64_t k_, n_, ldb_;
  bool transposed_, packs_;
  T* packed_ = nullptr;  // blocks of 64 columns, [k][column]
  const T* b_ = nullptr;
};

}  // namespace amp::cpu
