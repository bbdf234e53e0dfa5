// Passes over a complete graph. Each returns a new graph; inputs and parameters without readers are dropped.
#pragma once

#include "graph/graph.h"

namespace amp {

// Returns the value whose bytes v is a view of; v itself if it is not a view.
ValueId skip_views(const Graph&, ValueId v);

// Returns only the nodes that outputs and param_grads need.
Graph prune(const Graph&);

// Removes a Cast if its producer can store the other type itself and nothing else reads the Cast's input. A down-cast
// (fp32 to 16 bits) can always be absorbed by the producer, because the value is rounded once either way. An up-cast is
// absorbed only if the precision plan computes the producer in fp32, or if the producer accumulates or computes a
// parameter's gradient (dW, db: one product with fp32 output). If one reader needs a value that is cast down and up
// again, it reads the original value. Other up-casts are removed if only arithmetic reads them, because kernels widen
// on load.
Graph absorb_casts(const Graph&);

}  // namespace amp
