// Merges the projections of self attention. FusedAttention of q, k and v that are linear maps of one x with
// parameters as weights becomes packed FusedAttention of one product with the concatenated weights. One product
// with three times the columns uses a GPU better than three, packs x once on a CPU, and its gradient needs no sums.
// 16-bit copies of the weights are kept concatenated by the cast cache (backend/param_cache.h); weights without such
// copies are concatenated in each run.
#pragma once

#include "graph/builder.h"

namespace amp {

// Call before the precision plan is applied. compute: by source node; the three products must compute in one type.
Graph merge_qkv(const Graph& g, const std::vector<DType>& compute, const Evaluator& evaluator);

// Requires a training graph that includes the backward pass. Gradients of weights and biases that are computed
// concatenated and then split become separate outputs of the same node (attribute parts of MatMulBiasGrad), so that
// nothing is copied.
Graph part_gradients(const Graph& g);

}  // namespace amp
