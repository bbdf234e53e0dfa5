// Activation recomputation (gradient checkpointing; Chen et al. 2016, "Training Deep Nets with Sublinear Memory
// Cost"). Values of the forward pass that backward reads are computed again instead of being stored. The recomputed
// nodes have the same operands, and random nodes the same RNG stream id, so the bits are the same.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace amp {

// Returns the start of backward, in a graph whose nodes are in execution order: the index of the first node that
// depends on one of the inputs `seeds`. It is the argument `backward` of the functions below.
int32_t backward_begin(const Graph&, const std::vector<ValueId>& seeds);

// Indexed by value: whether the value is dropped, that is, not stored between forward and backward.
using Dropped = std::vector<bool>;
// Drops values that can be computed without a matrix product (by elementwise operators, norms, copies, pools),
// if the operands are stored anyway.
Dropped drop_cheap(const Graph&, int32_t backward);
// Divides the forward pass into `segments` ranges of nodes that store similar numbers of bytes. All ranges but the
// last store only what later ranges read; the last one drops cheap values. Ranges begin where few bytes of earlier
// values are still needed.
Dropped drop_segments(const Graph&, int32_t backward, int segments);

// Returns a graph in which dropped values are recomputed just before the first node of backward that needs them.
Graph recompute(const Graph&, int32_t backward, const Dropped&);

// Returns the fraction of the forward pass's products (matrix products, convolutions, attention, recurrent
// layers) that this graph computes again.
double products_again(const Graph&);

}  // namespace amp
