// Norm recomputation: an fp32 norm that only the next residual sum reads is not stored. The residual sum recomputes
// the norm from its statistics and its input, which is stored for the gradient in any case. Formula and bits are
// the same.
#pragma once

#include "graph/graph.h"

namespace amp {

// Returns the graph with norms recomputed. Requires fused norms (ops/passes/add_norm_fusion.h).
Graph recompute_norms(const Graph& g);

}  // namespace amp
