// The projections of self attention as one product: FusedAttention of q, k and v that are linear maps of one x, W
// parameters, becomes FusedAttention in its packed form of x times the maps side by side. One product of three times
// the columns fills a GPU better than three, packs x once on a CPU, and its gradient needs no sums. Weights that the
// plan has 16 bits wide are kept side by side by the update (backend/param_cache.h), others are laid so in every run.
#pragma once

#include "graph/builder.h"

namespace amp {

// Before the precision plan is applied. compute: by source node; the three products compute in one type.
Graph merge_qkv(const Graph& g, const std::vector<DType>& compute, const Evaluator& evaluator);

// Of a finished training graph: gradients of weights and biases that are computed side by side and then cut apart are
// computed apart by the same node (MatMulBiasGrad's parts), each in its place.
Graph part_gradients(const Graph& g);

// Of a finished training graph: parameters are laid side by side again for each node that reads them so, rather than
// kept so from forward to backward.
Graph repeat_joins(const Graph& g);

}  // namespace amp
