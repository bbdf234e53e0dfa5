// Activation recomputation (gradient checkpointing; Chen et al. 2016, "Training Deep Nets with Sublinear Memory
// Cost"). Values of the forward pass that backward reads are computed again instead of being stored. The same nodes
// with the same operands give the same bits; random nodes have the same RNG stream id.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace amp {

// Returns the index of the first node that depends on any of these inputs, in a graph whose nodes are in execution
// order: the start of backward. It is the argument `backward` of the functions below.
int32_t backward_begin(const Graph&, const std::vector<ValueId>& seeds);

// By value: true if the value is not stored between forward and backward.
using Dropped = std::vector<bool>;
// Drops values that need no matrix product: elementwise operators, norms, copies, pools, if their operands are
// stored anyway.
Dropped drop_cheap(const Graph&, int32_t backward);
// Divides the forward pass into `segments` ranges of nodes (parts) that store similar numbers of bytes. All but the
// last part store only what later parts read; the last part drops cheap values. Cuts are placed where few bytes cross
// them.
Dropped drop_segments(const Graph&, int32_t backward, int segments);

// Recomputes dropped values just before the first node of backward that needs them.
Graph recompute(const Graph&, int32_t backward, const Dropped&);

// The fraction of the forward pass's products (matrix products, convolutions, attention, recurrent layers) that
// this graph computes again.
double products_again(const Graph&);

}  // namespace amp
