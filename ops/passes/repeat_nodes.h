// Nodes that are computed again for each reader, because their results are large and would be in memory from the
// forward to the backward pass.
#pragma once

#include "graph/graph.h"

namespace amp {

// Requires a training graph that includes the backward pass. Concatenates parameters again for each reader.
Graph repeat_joins(const Graph& g);

// Dequantizes weights again for each reader (OpDef::deferred). Readers that dequantize the weight themselves need no
// copy. Nodes without readers are removed; a precision plan leaves such nodes when it replaces a weight by one in 16
// bits.
Graph repeat_dequantization(Graph g);

}  // namespace amp
