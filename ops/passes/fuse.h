// Fusing: connected elementwise nodes of one output shape become one Fused node (ops/fused.cc), so that what passes
// between them is neither written to memory nor read back. A sum down the columns of what such a node stores (the
// gradient of a bias) is taken with it. The result is the same bit for bit.
#pragma once

#include "graph/graph.h"

namespace amp {

struct FuseLimits {
  size_t steps = 24, inputs = 12, outputs = 6;  // of a Fused node
};

// The last pass: after autodiff and absorb_casts. Casts of parameters stay alone (the prologue computes them,
// backend/program.h).
Graph fuse_elementwise(const Graph& g, const FuseLimits& limits = {});

}  // namespace amp
