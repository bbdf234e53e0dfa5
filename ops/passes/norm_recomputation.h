// Norm recomputation: an fp32 norm that only the next residual sum reads is not stored. That sum recomputes it from
// the norm's input, which is stored for the gradient anyway, and the statistics. The formula and the bits are the
// same.
#pragma once

#include "graph/graph.h"

namespace amp {

// Requires a graph with fused norms (ops/passes/add_norm_fusion.h).
Graph recompute_norms(const Graph& g);

}  // namespace amp
