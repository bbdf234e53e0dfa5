// Decomposition of FusedAttentionGrad (ops/fused_attention.h). It stores the matrices of scores.
#pragma once

#include <vector>

#include "graph/builder.h"

namespace amp {

// Returns the decomposition; an empty list for packed sequences (input offsets).
std::vector<ValueId> decompose_attention_grad(Builder& b, const std::vector<ValueId>& in, const Attrs& attrs);

}  // namespace amp
