// Nodes that are computed again for each reader, because their results are large and would be in memory from the
// forward to the backward pass.
#pragma once

#include "graph/graph.h"

namespace amp {

// Requires a training graph that includes the backward pass. Concatenates parameters again for each reader.
Graph repeat_joins(const Graph& g);

// Dequantizes weights again for each reader (OpDef::deferred), and no weights without readers: a precision plan leaves
// those that it replaces by a weight in 16 bits. Readers that dequantize themselves cost nothing.
Graph repeat_dequantization(Graph g);

}  // namespace amp
