// Passes over a complete graph. Each returns a new graph; inputs and parameters without readers are dropped.
#pragma once

#include "graph/graph.h"

namespace amp {

// The value whose bytes v is a view of; v itself if it is not a view.
ValueId skip_views(const Graph&, ValueId v);

// Keeps only what outputs and param_grads need.
Graph prune(const Graph&);

// Removes Casts that the producer can do itself by storing the other type, if nothing else reads the source. Down-casts
// (fp32 to 16 bits) round once either way. Up-casts are absorbed only if the plan computes in fp32, or if the producer
// accumulates or computes a parameter's gradient (dW, db: one product with fp32 output). A value that is cast down and
// up again for one reader is read directly. Other up-casts are removed if only arithmetic reads them, because kernels
// widen on load.
Graph absorb_casts(const Graph&);

}  // namespace amp
