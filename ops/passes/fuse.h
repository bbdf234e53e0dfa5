// Elementwise fusion: connected elementwise nodes of one output shape become one Fused node (ops/fused.cc), so that
// intermediate values are not written to memory. A column sum of a stored output (the gradient of a bias) becomes
// part of the node. The bits of results do not change.
#pragma once

#include "graph/graph.h"

namespace amp {

struct FuseLimits {
  size_t steps = 24, inputs = 12, outputs = 6;  // the most that one Fused node may have
};

// The last pass; it runs after autodiff and absorb_casts(). Casts of parameters are excluded, because the cast
// cache computes them (backend/param_cache.h).
Graph fuse_elementwise(const Graph& g, const FuseLimits& limits = {});

}  // namespace amp
