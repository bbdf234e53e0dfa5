// Passes over a finished graph. Each returns a new graph; inputs and parameters that nothing reads any more are
// dropped.
#pragma once

#include "graph/graph.h"

namespace amp {

// The value whose bytes v is a view of; v where it is none.
ValueId behind_views(const Graph&, ValueId v);

// Only what outputs and param_grads need.
Graph prune(const Graph&);

// A Cast whose source is computed for it alone disappears: the producer stores the other type itself. Down-casts (fp32
// to 16 bit) round once either way. Up-casts are taken only where the plan computes in fp32, or where the producer
// accumulates or makes a parameter's gradient (dW, db: one product with fp32 output). A value cast down for one reader
// that casts it up again is read as it was. Of the other up-casts those go that arithmetic alone reads: kernels
// widen as they load.
Graph absorb_casts(const Graph&);

}  // namespace amp
