// Column sums that belong to one norm's gradient, in one pass over its rows. If the norm's dy is the sum of two
// gradients, each kernel that reads dy adds them itself. merge_norm_sums() forms these nodes in graphs that include the
// backward pass, for devices on which a launch and a pass over memory cost more than arithmetic.
//
// NormSums: in 0 x, 1 mean, 2 rstd, 3 dy, 4 a second summand `more` of dy (optional), 5 z (optional); out 0 dscale (n),
// 1 dbias (n), 2 sums (n) if there is a z
//   dscale, dbias = LayerNormGradWeights(x, mean, rstd, dy + more);  sums = the column sums of z (a bias's gradient);
//   z has rows of n elements
// Attributes n, epsilon, rms: those of LayerNorm. The order of additions is that of LayerNormGradWeights and
// ReduceSum, so the bits are equal.
#pragma once

#include "graph/graph.h"

namespace amp {

// Forms AddNormGradSums and NormSums. Requires fused norms (ops/passes/add_norm_fusion.h). An Add that is read
// only by AddNormGrad and LayerNormGradWeights is merged into both. AddNormGrad (or LayerNormGrad in fp32),
// LayerNormGradWeights and a ReduceSum of AddNormGrad's output become AddNormGradSums (ops/add_norm.h). If a sum
// is read too early for that, only LayerNormGradWeights and ReduceSum are merged, into NormSums.
Graph merge_norm_sums(const Graph& g);

}  // namespace amp
