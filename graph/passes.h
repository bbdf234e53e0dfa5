// Passes over a finished graph. Each returns a new graph; inputs and parameters that nothing reads any more are dropped.
#pragma once

#include "graph/graph.h"

namespace amp {

// Only what outputs and param_grads need.
Graph prune(const Graph&);

// A Cast whose source is computed for it alone disappears: the producer stores the other type itself. Down-casts (fp32 to
// 16 bit) round once either way. Up-casts are taken only where the plan computes in fp32, or where the producer
// accumulates (dW, db: one product with fp32 output).
Graph absorb_casts(const Graph&);

}  // namespace amp
