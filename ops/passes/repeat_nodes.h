// Passes that compute nodes again for each reader, because their results are large and would otherwise stay in
// memory from the forward to the backward pass.
#pragma once

#include "graph/graph.h"

namespace amp {

// Concatenates parameters again for each reader. Requires a training graph that includes the backward pass.
Graph repeat_joins(const Graph& g);

// Dequantizes weights again for each reader (OpDef::deferred). Readers that dequantize the weight themselves need no
// copy. Nodes without readers are removed; a precision plan leaves such nodes when it replaces a weight by one in 16
// bits.
Graph repeat_dequantization(Graph g);

}  // namespace amp
