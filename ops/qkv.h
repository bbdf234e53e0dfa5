// The projections of self attention as one product: FusedAttention of q, k and v that are linear maps of one x, W
// parameters, becomes FusedAttention in its packed form of x times the maps side by side. One product of three times
// the columns fills a GPU better than three,
// and its gradient needs no sums. The weights are laid side by side in every run, 16 bits wide where the plan has them
// so.
#pragma once

#include "graph/builder.h"

namespace amp {

// Before the precision plan is applied. compute: by source node; the three products compute in one type.
Graph merge_qkv(const Graph& g, const std::vector<DType>& compute, const Evaluator& evaluator);

}  // namespace amp
