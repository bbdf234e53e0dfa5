// A pass over a complete graph (casts absorbed, backward included). Residual sum, bias and dropout of the branch,
// the norm and the 16-bit copy of the norm's result become one AddNorm. The norm's gradient, its sum with other
// gradients, the dropout's gradient and the 16-bit copy become one AddNormGrad (ops/add_norm.h).
//
// Results keep their storage types, and intermediate results are rounded as before, so the bits do not change.
#pragma once

#include "graph/graph.h"

namespace amp {

Graph fuse_norms(const Graph& g);

}  // namespace amp
