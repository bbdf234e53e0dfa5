// A norm in fp32 that only the next residual sum reads is not stored: that sum computes it again from what the norm was
// of, which is kept for the gradient anyway, and the statistics. The formula is the same, and so are the bits.
#pragma once

#include "graph/graph.h"

namespace amp {

// Of a graph whose norms are fused (ops/passes/add_norm_fusion.h).
Graph renew_norms(const Graph& g);

}  // namespace amp
