// Micro-kernels of matrix products for SSE, AVX2, AVX-512 and AVX512_BF16: a block of C in registers, one broadcast
// element of A times a vector of B per instruction. Tables of functions cover every number of rows. The micro-kernel
// for AMX is in amx_kernel.cc.

#include <immintrin.h>

#include <array>
#include <utility>

#include "backend/cpu/gemm/micro_kernel.h"
#include "backend/cpu/isa/x86/bf16_pairs.h"
#include "backend/cpu/isa/x86/kernels.h"
#include "base/simd.h"

namespace amp::cpu::x86 {
namespace {

// Addresses of A's 4-byte elements: by rows, or by steps (the elements of all rows at a step are adjacent).
template <int R, bool ByRows, class T>
struct Steps {
  AMP_INLINE Steps(const T* a, int64_t lda)
      : first_(a), second_(a + (ByRows && R > kHalf ? kHalf * lda : 0)), lda_(lda) {}
  AMP_INLINE T operator()(int r) const {
    if constexpr (!ByRows) return first_[r];
    return r < kHalf ? first_[r * lda_] : second_[(r - kHalf) * lda_];
  }
  AMP_INLINE void next() {
    first_ += ByRows ? 1 : lda_;
    second_ += 1;
  }

 private:
  static constexpr int kHalf = 7;  // rows that can be addressed from one base by small multiples of lda
  const T *first_, *second_;
  int64_t lda_;
};

// There is one struct per instruction set: a vector of fp32, and the multiply-add of a broadcast element of A with a
// vector of B. Each struct contains its loops, because a function's target attribute does not apply to templates that
// the function calls.
struct Sse {
  static constexpr int kRows = 6, kLanes = 4;
  template <int R, int V, bool ByRows>
  static void block(int64_t k, const void* pa, int64_t lda, const void* pb, int64_t ldb, float* c, int64_t ldc,
                    bool add) {
    const float *a = static_cast<const float*>(pa), *b = static_cast<const float*>(pb);
    Steps<R, ByRows, float> at(a, lda);
    __m128 acc[R][V];
    for (int r = 0; r < R; ++r) {
      for (int v = 0; v < V; ++v) acc[r][v] = add ? _mm_loadu_ps(c + r * ldc + v * 4) : _mm_setzero_ps();
    }
    for (int64_t i = 0; i < k; ++i, b += ldb, at.next()) {
      __m128 y[V];
      for (int v = 0; v < V; ++v) y[v] = _mm_loadu_ps(b + v * 4);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const __m128 x = _mm_set1_ps(at(r));
        for (int v = 0; v < V; ++v) acc[r][v] = _mm_add_ps(acc[r][v], _mm_mul_ps(x, y[v]));
      }
    }
    for (int r = 0; r < R; ++r) {
      for (int v = 0; v < V; ++v) _mm_storeu_ps(c + r * ldc + v * 4, acc[r][v]);
    }
  }
};

struct Avx2 {
  static constexpr int kRows = 6, kLanes = 8;
  template <int R, int V, bool ByRows>
  [[gnu::target("avx2,fma")]] static void block(int64_t k, const void* pa, int64_t lda, const void* pb, int64_t ldb,
                                                float* c, int64_t ldc, bool add) {
    const float *a = static_cast<const float*>(pa), *b = static_cast<const float*>(pb);
    Steps<R, ByRows, float> at(a, lda);
    __m256 acc[R][V];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      for (int v = 0; v < V; ++v) acc[r][v] = add ? _mm256_loadu_ps(c + r * ldc + v * 8) : _mm256_setzero_ps();
    }
    for (int64_t i = 0; i < k; ++i, b += ldb, at.next()) {
      __m256 y[V];
      for (int v = 0; v < V; ++v) y[v] = _mm256_loadu_ps(b + v * 8);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const __m256 x = _mm256_set1_ps(at(r));
        for (int v = 0; v < V; ++v) acc[r][v] = _mm256_fmadd_ps(x, y[v], acc[r][v]);
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      for (int v = 0; v < V; ++v) _mm256_storeu_ps(c + r * ldc + v * 8, acc[r][v]);
    }
  }
};

struct Avx512 {
  static constexpr int kRows = 14, kLanes = 16,
                       kAhead = 8;  // kAhead: prefetch distance for B, in steps
  template <int R, int V, bool ByRows>
  [[gnu::target("avx512f")]] static void block(int64_t k, const void* pa, int64_t lda, const void* pb, int64_t ldb,
                                               float* c, int64_t ldc, bool add) {
    const float *a = static_cast<const float*>(pa), *b = static_cast<const float*>(pb);
    Steps<R, ByRows, float> at(a, lda);
    __m512 acc[R][V];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      for (int v = 0; v < V; ++v) acc[r][v] = add ? _mm512_loadu_ps(c + r * ldc + v * 16) : _mm512_setzero_ps();
    }
    for (int64_t i = 0; i < k; ++i, b += ldb, at.next()) {
      __m512 y[V];
      for (int v = 0; v < V; ++v) {
        y[v] = _mm512_loadu_ps(b + v * 16);
        _mm_prefetch(b + kAhead * ldb + v * 16, _MM_HINT_T0);
      }
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const __m512 x = _mm512_set1_ps(at(r));
        for (int v = 0; v < V; ++v) acc[r][v] = _mm512_fmadd_ps(x, y[v], acc[r][v]);
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      for (int v = 0; v < V; ++v) _mm512_storeu_ps(c + r * ldc + v * 16, acc[r][v]);
    }
  }
};

struct Avx512Bf16 {
  static constexpr int kRows = 14, kLanes = 16;
  template <int R, int V, bool ByRows>
  [[gnu::target("avx512f,avx512bf16")]] static void block(int64_t k, const void* pa, int64_t lda, const void* pb,
                                                          int64_t ldb, float* c, int64_t ldc, bool add) {
    const int32_t *a = static_cast<const int32_t*>(pa), *b = static_cast<const int32_t*>(pb);
    Steps<R, ByRows, int32_t> at(a, lda);
    __m512 acc[R][V];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      for (int v = 0; v < V; ++v) acc[r][v] = add ? _mm512_loadu_ps(c + r * ldc + v * 16) : _mm512_setzero_ps();
    }
    for (int64_t i = 0; i < k; ++i, b += ldb, at.next()) {
      __m512bh y[V];
      for (int v = 0; v < V; ++v) y[v] = bf16_pairs(_mm512_loadu_si512(b + v * 16));
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const __m512bh x = bf16_pairs(_mm512_set1_epi32(at(r)));
        for (int v = 0; v < V; ++v) acc[r][v] = _mm512_dpbf16_ps(acc[r][v], x, y[v]);
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      for (int v = 0; v < V; ++v) _mm512_storeu_ps(c + r * ldc + v * 16, acc[r][v]);
    }
  }
};

template <class I, bool ByRows, size_t... N>
constexpr std::array<MicroKernel::Block, sizeof...(N)> make_table(std::index_sequence<N...>) {
  return {&I::template block<static_cast<int>(N / 2) + 1, static_cast<int>(N % 2) + 1, ByRows>...};
}
template <class I>
constexpr auto kTable = make_table<I, false>(std::make_index_sequence<2 * I::kRows>{});
template <class I>
constexpr auto kRowTable = make_table<I, true>(std::make_index_sequence<2 * I::kRows>{});
template <class I>
constexpr MicroKernel make(bool pairs) {
  return {I::kRows, 2 * I::kLanes, pairs, kTable<I>.data(), kRowTable<I>.data()};
}

}  // namespace

const MicroKernel kSse = make<Sse>(false), kAvx2 = make<Avx2>(false), kAvx512 = make<Avx512>(false),
                  kAvx512Bf16 = make<Avx512Bf16>(true);

}  // namespace amp::cpu::x86
