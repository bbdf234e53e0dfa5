// Merges the projections of self attention. It applies to FusedAttention whose q, k and v are linear maps of the
// same x, with parameters as weights. They become one product with the concatenated weights, followed by packed
// FusedAttention. One product with three times the columns uses a GPU better than three, packs x once on a CPU, and
// its gradient needs no sums. The cast cache keeps 16-bit copies of the weights concatenated
// (backend/param_cache.h); weights without such copies are concatenated in each run.
#pragma once

#include "graph/builder.h"

namespace amp {

// Merges projections that compute in one type. Call before the precision plan is applied. compute: by source node.
Graph merge_qkv(const Graph& g, const std::vector<DType>& compute, const Evaluator& evaluator);

// Splits gradients of merged weights and biases. They are computed concatenated and then split by Slices; here they
// become separate outputs of the node that computes them (attribute parts of MatMulBiasGrad), so that no data are
// copied. Requires a training graph that includes the backward pass.
Graph part_gradients(const Graph& g);

}  // namespace amp
