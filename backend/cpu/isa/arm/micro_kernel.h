// The micro-kernel of matrix products for 64-bit ARM, for fp32 and for pairs of bf16: a block of up to 12 rows and two
// vectors of C is kept in 24 of the 32 registers. An element of A is used from the lane in which it was loaded, so that
// a step of a full block is 5 loads and 24 multiply-adds.
#pragma once

#include <arm_neon.h>

#include <array>
#include <utility>

#include "backend/cpu/gemm/micro_kernel.h"

namespace amp::cpu::arm {

constexpr int kRows = 12, kLanes = 4;

// Product: a struct with type Element (4 bytes) and functions
//   load(from)               a vector of four elements
//   lane<L>(sum, y, x)       sum + y * element L of x
//   scalar(sum, y, element)  sum + y * element
template <class Product, int R, int V, bool ByRows>
struct NeonBlock {
  using Element = typename Product::Element;
  static constexpr int kWhole = R / kLanes;  // vectors of A's rows at a step of a packed panel

  // acc[Row] += A's element in row Row times y, at one step. The element is a lane of x if x has the row, otherwise *a.
  template <int Row, class Y, class X>
  static void row(float32x4_t (&acc)[R][V], const Y (&y)[V], const X* x, const Element* a) {
    for (int v = 0; v < V; ++v) {
      if constexpr (!ByRows && Row / kLanes < kWhole)
        acc[Row][v] = Product::template lane<Row % kLanes>(acc[Row][v], y[v], x[Row / kLanes]);
      else
        acc[Row][v] = Product::scalar(acc[Row][v], y[v], *a);
    }
  }

  template <int... Row>
  static void run_rows(int64_t k, const Element* a, int64_t lda, const Element* b, int64_t ldb, float* c, int64_t ldc,
                       bool add, std::integer_sequence<int, Row...>) {
    float32x4_t acc[R][V];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      for (int v = 0; v < V; ++v) acc[r][v] = add ? vld1q_f32(c + r * ldc + v * kLanes) : vdupq_n_f32(0);
    }
    const Element* at[R];  // ByRows: address of each row's next element
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) at[r] = a + r * lda;
    using Vector = decltype(Product::load(b));
    for (int64_t i = 0; i < k; ++i, b += ldb) {
      Vector y[V], x[kWhole + 1];
      for (int v = 0; v < V; ++v) y[v] = Product::load(b + v * kLanes);
      if constexpr (ByRows) {
        (row<Row>(acc, y, x, at[Row]++), ...);
      } else {
        for (int w = 0; w < kWhole; ++w) x[w] = Product::load(a + w * kLanes);
        (row<Row>(acc, y, x, a + Row), ...);
        a += lda;
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      for (int v = 0; v < V; ++v) vst1q_f32(c + r * ldc + v * kLanes, acc[r][v]);
    }
  }

  static void run(int64_t k, const void* a, int64_t lda, const void* b, int64_t ldb, float* c, int64_t ldc, bool add) {
    run_rows(k, static_cast<const Element*>(a), lda, static_cast<const Element*>(b), ldb, c, ldc, add,
             std::make_integer_sequence<int, R>());
  }
};

template <class Product, bool ByRows, size_t... N>
constexpr std::array<MicroKernel::Block, sizeof...(N)> make_table(std::index_sequence<N...>) {
  return {&NeonBlock<Product, static_cast<int>(N / 2) + 1, static_cast<int>(N % 2) + 1, ByRows>::run...};
}
template <class Product>
constexpr auto kTable = make_table<Product, false>(std::make_index_sequence<2 * kRows>{});
template <class Product>
constexpr auto kRowTable = make_table<Product, true>(std::make_index_sequence<2 * kRows>{});

}  // namespace amp::cpu::arm
