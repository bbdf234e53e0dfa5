// Interval analysis of a bound graph: which values are finite, and their ranges, for any parameters and any batch.
// Padding removal (ops/passes/padding_flow.h) needs this information, because 0 (from a mask) times a number is 0
// only if the number is finite.
#pragma once

#include <limits>
#include <vector>

#include "graph/graph.h"

namespace amp {

struct Bounds {
  static constexpr double kInf = std::numeric_limits<double>::infinity();
  double lo = -kInf, hi = kInf;
  bool finite = false;  // no NaN or infinity. Parameters and inputs count as finite; overflow is ignored
  bool below = false;   // all elements are finite or -inf

  bool positive() const { return finite && lo > std::numeric_limits<float>::min(); }
  // Returns the bounds of a value whose elements come from this value or from the other one.
  Bounds joined(const Bounds& other) const;
};

Bounds finite_between(double lo, double hi);
Bounds bounds_of_constant(const HostTensor& t);

// Returns the bounds of the node's outputs, given those of its inputs. The bounds given for absent inputs are not used.
Bounds output_bounds(const Graph& g, const Node& n, const std::vector<Bounds>& in);

}  // namespace amp
