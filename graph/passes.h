// Passes over a complete graph. Each returns a new graph; inputs and parameters without readers are dropped.
#pragma once

#include "graph/graph.h"

namespace amp {

// If v is a view, returns the value whose bytes it shares; otherwise v itself.
ValueId skip_views(const Graph&, ValueId v);

// Returns a graph with only those nodes that outputs and param_grads need.
Graph prune(const Graph&);

// Removes a Cast if the node that computes its input can store the other type itself, and nothing else reads the
// input. A down-cast (fp32 to 16 bits) can always be absorbed, because the value is rounded once either way. An
// up-cast is absorbed only if the precision plan computes the node in fp32, or the node accumulates or computes a
// parameter's gradient (dW, db: one product with fp32 output). A node that reads a value cast down and up again reads
// the original value instead. Other up-casts are removed if only arithmetic reads them, because kernels widen on
// load.
Graph absorb_casts(const Graph&);

}  // namespace amp
