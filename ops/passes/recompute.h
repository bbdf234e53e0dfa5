// Activation recomputation (gradient checkpointing; Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"):
// values of the forward pass that backward reads are computed again there instead of being kept. The same nodes on the
// same operands give the same bits; random nodes draw by their site, so they draw the same.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace amp {

// The first node that depends on any of these inputs, in a graph whose nodes lie in the order in which they run: where
// backward begins.
int32_t backward_begin(const Graph&, const std::vector<ValueId>& seeds);

// Which values are not kept, by value.
using Dropped = std::vector<bool>;
// What costs no product of matrices: elementwise operators, norms, moves, pools, as far as what they read is kept
// anyway.
Dropped drop_cheap(const Graph&, int32_t backward);
// The forward pass in `segments` parts of about as many kept bytes: only what a later part reads is kept of all but the
// last one, of which the cheap values are dropped. Cuts lie where few bytes cross them.
Dropped drop_segments(const Graph&, int32_t backward, int segments);

// Values that are dropped are computed again just before the first node of the backward pass that needs them.
Graph recompute(const Graph&, int32_t backward, const Dropped&);

// Of the forward pass's products (matrix products, convolutions, attention, recurrent layers), the share that such a
// graph computes again.
double products_again(const Graph&);

}  // namespace amp
