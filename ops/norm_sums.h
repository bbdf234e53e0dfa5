// Sums down the columns that belong to one norm's gradient, in one pass; the sum of two gradients that flow into it
// is left to those who read it. They are formed in finished graphs for devices where a launch and a pass over memory
// cost more than arithmetic.
//
// NormSums: in 0 x, 1 mean, 2 rstd, 3 dy, 4 more of dy (optional), 5 z (optional); out 0 dscale (n), 1 dbias (n), 2
// sums (n), where there is a z
//   dscale, dbias = LayerNormGradWeights(x, mean, rstd, dy + more);  sums = z's column sums, z having rows of n
// Attributes n, epsilon, rms: LayerNorm's. Sums are in the order of LayerNormGradWeights and ReduceSum: their bits.
#pragma once

#include "graph/graph.h"

namespace amp {

// Of a graph whose norms are fused (ops/passes/add_norm_fusion.h): an Add that AddNormGrad and LayerNormGradWeights
// alone read goes into both; AddNormGrad (or LayerNormGrad in fp32), LayerNormGradWeights and a ReduceSum of what the
// first gives out become AddNormGradSums (ops/add_norm.h) or, where a sum is read before, the last two NormSums.
Graph merge_norm_sums(const Graph& g);

}  // namespace amp
