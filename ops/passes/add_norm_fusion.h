// A pass over a finished graph (casts absorbed, backward pass and all): a residual sum, the bias and the dropout of
// what is added, the norm behind them and the 16-bit copy of its result become one AddNorm; the norm's gradient, the
// sum with what else arrives, the dropout's gradient and the 16-bit copy become one AddNormGrad (ops/add_norm.h).
//
// Results keep their storage types, and intermediate ones round as they did: the same bits.
#pragma once

#include "graph/graph.h"

namespace amp {

Graph fuse_norms(const Graph& g);

}  // namespace amp
