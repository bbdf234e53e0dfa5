// Interval analysis of a bound graph: which values are finite, and their ranges, for any parameters and any batch.
// Padding removal (ops/passes/padding_flow.h) needs it, because a mask's 0 times a number is 0 only if that number
// is finite.
#pragma once

#include <limits>
#include <vector>

#include "graph/graph.h"

namespace amp {

struct Bounds {
  static constexpr double kInf = std::numeric_limits<double>::infinity();
  double lo = -kInf, hi = kInf;
  bool finite = false;  // no element is NaN or infinite. Parameters and inputs count as finite; overflow is ignored
  bool below = false;   // elements are finite or -inf

  bool positive() const { return finite && lo > std::numeric_limits<float>::min(); }
  // Bounds of a value whose elements come from this value or from the other one.
  Bounds joined(const Bounds& other) const;
};

Bounds finite_between(double lo, double hi);
Bounds bounds_of_constant(const HostTensor& t);

// Bounds of the node's outputs, given those of its inputs (for absent inputs anything).
Bounds output_bounds(const Graph& g, const Node& n, const std::vector<Bounds>& in);

}  // namespace amp
