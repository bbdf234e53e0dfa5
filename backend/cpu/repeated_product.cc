#include "backend/cpu/repeated_product.h"

#include <algorithm>

#include "backend/cpu/block_transpose.h"
#include "backend/cpu/tile_product.h"

namespace amp::cpu {

namespace {

constexpr int64_t kColumns = 64, kInner = 256;  // kInner: products that are summed before they are added

void pack(const float* b, int64_t k, int64_t n, bool transposed, int64_t ldb, float* to) {
  parallel_for((n + kColumns - 1) / kColumns, [&](int64_t block) {
    const int64_t first = block * kColumns, width = std::min(kColumns, n - first);
    float* out = to + first * k;
    if (!transposed) {
      for (int64_t i = 0; i < k; ++i) std::copy_n(b + i * ldb + first, width, out + i * width);
      return;
    }
    at_level([&]<int Lanes>() AMP_INLINE {
      for (int64_t j = 0; j < width; j += 16) {
        for (int64_t i = 0; i < k; i += 16) {
          transpose_block<Lanes>(b + (first + j) * ldb + i, ldb, 16, std::min<int64_t>(16, k - i),
                                 [&](int64_t q) AMP_INLINE { return out + (i + q) * width + j; });
        }
      }
    });
  });
}

}  // namespace

template <class T>
RepeatedProduct<T> RepeatedProduct<T>::packed(const T* b) const {
  RepeatedProduct out = *this;
  out.b_ = b;
  if constexpr (std::is_same_v<T, float>) {
    if (packs_) pack(b, k_, n_, transposed_, ldb_, packed_);
  }
  return out;
}

template <class T>
void RepeatedProduct<T>::run(int64_t rows, const T* a, int64_t lda, bool add, T* c, int64_t ldc) const {
  if constexpr (std::is_same_v<T, float>) {
    if (packs_) {
      const int64_t blocks = (n_ + kColumns - 1) / kColumns;
      const bool small = 2 * rows * n_ * k_ < 1000000;
      const int64_t shards = small ? 1 : std::min<int64_t>(blocks, 16);
      parallel_for(shards, [&](int64_t s) {
        at_level([&]<int Lanes>() AMP_INLINE {
          for (int64_t block = blocks * s / shards; block < blocks * (s + 1) / shards; ++block) {
            const int64_t first = block * kColumns, width = std::min(kColumns, n_ - first);
            for (int64_t i = 0; i < k_; i += kInner) {
              multiply<Lanes, true>(a + i, lda, 1, packed_ + first * k_ + i * width, width, std::min(kInner, k_ - i),
                                    c + first, ldc, add || i > 0, rows, width);
            }
          }
        });
      });
      return;
    }
  }
  parallel_gemm<T>(false, transposed_, rows, n_, k_, T(1), a, lda, b_, ldb_, T(add ? 1 : 0), c, ldc);
}

template class RepeatedProduct<float>;
template class RepeatedProduct<double>;

}  // namespace amp::cpu
