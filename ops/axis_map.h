// A linear map along one axis, the same for each line. Pad (reflect, edge, wrap) and Resize are built from it.
//
// Core AxisMap(x) {axis, begin, index, weight}: y[.., j, ..] = sum over t in begin[j] .. begin[j+1] of weight[t] x[..,
// index[t], ..].
// The gradient is the transposed map. For integers all weights must be 1, with at most one per row, so values are
// only copied.
#pragma once

#include "graph/builder.h"

namespace amp {

struct AxisMap {  // compressed sparse rows
  std::vector<int64_t> begin{0}, index;
  std::vector<double> weight;

  void add(int64_t source, double w) {
    index.push_back(source);
    weight.push_back(w);
  }
  void end_row() { begin.push_back(static_cast<int64_t>(index.size())); }
  int64_t rows() const { return static_cast<int64_t>(begin.size()) - 1; }
  bool identity(int64_t n) const;
  AxisMap transposed(int64_t n) const;  // n: extent of the source axis
};

// A map with one source per row.
AxisMap select_map(const std::vector<int64_t>& sources);

ValueId map_axis(Builder& b, ValueId x, int64_t axis, const AxisMap& m);

}  // namespace amp
