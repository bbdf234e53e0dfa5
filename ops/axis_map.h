// A linear map along one axis, applied to each line of the tensor along that axis. Pad (reflect, edge,
// wrap) and Resize are built from it.
//
// Core AxisMap(x) {axis, begin, index, weight}: y[.., j, ..] is the sum over t in begin[j] ..
// begin[j+1] - 1 of weight[t] x[.., index[t], ..]. The gradient is the transposed map. For integer
// tensors all weights must be 1, with at most one weight per output index j, so values are only
// copied.
#pragma once

#include "graph/builder.h"

namespace amp {

struct AxisMap {  // a matrix in CSR format: a row for each output index, a column for each source index
  std::vector<int64_t> begin{0}, index;
  std::vector<double> weight;

  void add(int64_t source, double w) {
    index.push_back(source);
    weight.push_back(w);
  }
  void end_row() { begin.push_back(static_cast<int64_t>(index.size())); }
  int64_t rows() const { return static_cast<int64_t>(begin.size()) - 1; }
  bool identity(int64_t n) const;
  AxisMap transposed(int64_t n) const;  // n: extent of the axis in x
};

// Returns the map y[j] = x[sources[j]].
AxisMap select_map(const std::vector<int64_t>& sources);

ValueId map_axis(Builder& b, ValueId x, int64_t axis, const AxisMap& m);

}  // namespace amp
