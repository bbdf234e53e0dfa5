// Products of small fp32 matrices with a tile of sums in registers. Kernels build larger products from them.
#pragma once

#include "backend/cpu/vectors.h"

namespace amp::cpu {

// Computes to = a b, or to += a b if `add`, over k steps: Rows rows of a times Columns vectors of b. Element (r, i) of
// a is at a[r * a_row + i * a_step].
template <int Lanes, int Columns, int Rows>
AMP_INLINE inline void multiply_tile(const float* a, int64_t a_row, int64_t a_step, const float* b, int64_t b_step,
                                     int64_t k, float* to, int64_t to_row, bool add) {
  using V = typename cpu::VectorOf<Lanes>::type;
  V acc[Rows][Columns];
  for (int64_t r = 0; r < Rows; ++r) {
    for (int64_t j = 0; j < Columns; ++j) acc[r][j] = V{};
  }
  const float* at[Rows];
  for (int64_t r = 0; r < Rows; ++r) at[r] = a + r * a_row;
  for (int64_t i = 0; i < k; ++i, b += b_step) {
    V v[Columns];
    for (int64_t j = 0; j < Columns; ++j) v[j] = *reinterpret_cast<const V*>(b + j * Lanes);
    for (int64_t r = 0; r < Rows; ++r) {
      const float x = at[r][i * a_step];
      for (int64_t j = 0; j < Columns; ++j) acc[r][j] += x * v[j];
    }
  }
  for (int64_t r = 0; r < Rows; ++r) {
    for (int64_t j = 0; j < Columns; ++j) {
      V& sum = *reinterpret_cast<V*>(to + r * to_row + j * Lanes);
      sum = add ? sum + acc[r][j] : acc[r][j];
    }
  }
}

// Number of rows of a register tile. A tile of four vectors per row uses three quarters of the AVX-512 registers.
constexpr int64_t kRows = 6;

// Like multiply_tile for any number of rows and for `width` columns, a multiple of 16 up to 64. If Exact, computes no
// additional rows. Otherwise computes whole tiles of rows, for which the buffers must be large enough.
template <int Lanes, bool Exact = false>
AMP_INLINE inline void multiply(const float* a, int64_t a_row, int64_t a_step, const float* b, int64_t b_step,
                                int64_t k, float* to, int64_t to_row, bool add, int64_t rows, int64_t width) {
  const auto row_of_tiles = [&]<int Rows>(int64_t r) AMP_INLINE {
    const auto tile = [&]<int Columns>(int64_t j) AMP_INLINE {
      multiply_tile<Lanes, Columns, Rows>(a + r * a_row, a_row, a_step, b + j, b_step, k, to + r * to_row + j, to_row,
                                          add);
    };
    if constexpr (Lanes == 16) {
      if (width == 64)
        tile.template operator()<4>(0);
      else if (width == 48)
        tile.template operator()<3>(0);
      else if (width == 32)
        tile.template operator()<2>(0);
      else
        tile.template operator()<1>(0);
    } else {
      for (int64_t j = 0; j < width; j += int64_t{2} * Lanes) tile.template operator()<2>(j);
    }
  };
  int64_t r = 0;
  for (; r + (Exact ? kRows : 1) <= rows; r += kRows) row_of_tiles.template operator()<kRows>(r);
  if constexpr (Exact) {
    for (; r < rows; ++r) row_of_tiles.template operator()<1>(r);
  }
}

}  // namespace amp::cpu
