// Column sums that belong to one norm's gradient, in one pass over its rows. If two gradients reach the norm, each
// kernel that reads their sum adds them itself. Formed in graphs that include the backward pass, for devices on which a
// launch and a pass over memory cost more than arithmetic.
//
// NormSums: in 0 x, 1 mean, 2 rstd, 3 dy, 4 more of dy (optional), 5 z (optional); out 0 dscale (n), 1 dbias (n), 2
// sums (n), where there is a z
//   dscale, dbias = LayerNormGradWeights(x, mean, rstd, dy + more);  sums = z's column sums (the gradient of a bias),
//   z having rows of n
// Attributes n, epsilon, rms: LayerNorm's. The order of additions is that of LayerNormGradWeights and ReduceSum, so the
// bits are equal.
#pragma once

#include "graph/graph.h"

namespace amp {

// Requires a graph with fused norms (ops/passes/add_norm_fusion.h). An Add that is read only by AddNormGrad and
// LayerNormGradWeights is merged into both. AddNormGrad (or LayerNormGrad in fp32), LayerNormGradWeights and a
// ReduceSum of the first one's output become AddNormGradSums (ops/add_norm.h). If a sum is read earlier, the last
// two become NormSums.
Graph merge_norm_sums(const Graph& g);

}  // namespace amp
