// The sums of a matrix's columns in fp32: gradients of biases.
#pragma once

#include "backend/cuda/columns.cuh"

namespace amp::cuda {

template <int W>
struct ColumnSums {
  using Value = float;
  using Loaded = Raw<float, W>;
  static constexpr int kSums = 1, kWidth = W;
  struct Context {};
  Ref x, y;
  int64_t columns;
  bool accumulate;
  DEV float identity() const { return 0; }
  DEV float combine(float a, float b) const { return a + b; }
  DEV Context begin(int64_t) const { return {}; }
  DEV Loaded fetch(int64_t, int64_t row, int64_t column) const {
    return amp::cuda::fetch<float, W>(x, row * columns + column);
  }
  DEV void add(float (&acc)[1][W], const Loaded& l, const Context&) const {
    float v[W];
    unpack(x, l, v);
    for (int w = 0; w < W; ++w) acc[0][w] += v[w];
  }
  DEV void store(int, int64_t cell, float v) const {
    amp::cuda::store(y, cell, accumulate ? load<float>(y, cell) + v : v);
  }
};

// Part of a prepare function: y (columns) = or += the sums of x (rows, columns) over its rows.
inline Kernel sum_columns(const KernelArgs& a, Carver& carver, const Ref& x, const Ref& y, int64_t rows,
                          int64_t columns, bool accumulate) {
  if (columns % 4 == 0) return reduce_columns(a, carver, 1, rows, columns, ColumnSums<4>{x, y, columns, accumulate});
  return reduce_columns(a, carver, 1, rows, columns, ColumnSums<1>{x, y, columns, accumulate});
}

}  // namespace amp::cuda
