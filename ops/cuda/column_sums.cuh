// Kernels that sum a matrix's columns in fp32, for gradients of biases.
#pragma once

#include "backend/cuda/columns.cuh"

namespace amp::cuda {

template <int W>
struct ColumnSums {
  using Value = float;
  using Loaded = Raw<float, W>;
  static constexpr int kSums = 1, kWidth = W, min_blocks = 4;
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

// Returns a kernel that sets y (columns) to the sums of x (rows, columns) over its rows, or adds the sums to y if
// `accumulate`. Prepare functions call this; it takes workspace from carver.
inline Kernel sum_columns(const KernelArgs& a, Carver& carver, const Ref& x, const Ref& y, int64_t rows,
                          int64_t columns, bool accumulate) {
  if (columns % 4 == 0) return reduce_columns(a, carver, 1, rows, columns, ColumnSums<4>{x, y, columns, accumulate});
  return reduce_columns(a, carver, 1, rows, columns, ColumnSums<1>{x, y, columns, accumulate});
}

// Does the same as ColumnSums, but stores the sums in several tensors of `part` columns each.
constexpr int kMostParts = 4;
template <int W>
struct ColumnSumsOfParts : ColumnSums<W> {
  Ref parts[kMostParts];
  int64_t part;
  DEV void store(int, int64_t cell, float v) const {
    const int64_t i = quotient(cell, part), at = cell - i * part;
    amp::cuda::store(parts[i], at, this->accumulate ? load<float>(parts[i], at) + v : v);
  }
};

inline Kernel sum_columns(const KernelArgs& a, Carver& carver, const Ref& x, const std::vector<Tensor>& y, int64_t rows,
                          int64_t columns, bool accumulate) {
  check(!y.empty() && y.size() <= kMostParts, "sums of too many parts");
  const auto make = [&](auto width) {
    constexpr int W = decltype(width)::value;
    ColumnSumsOfParts<W> body{{x, {}, columns, accumulate}, {}, columns / static_cast<int64_t>(y.size())};
    std::copy(y.begin(), y.end(), body.parts);
    return reduce_columns(a, carver, 1, rows, columns, body);
  };
  return columns % 4 == 0 ? make(std::integral_constant<int, 4>{}) : make(std::integral_constant<int, 1>{});
}

}  // namespace amp::cuda
