// FusedAttentionGrad (ops/fused_attention.h) spelled out, its matrices of scores kept.
#pragma once

#include <vector>

#include "graph/builder.h"

namespace amp {

// Nothing where sequences lie one behind the other (offsets).
std::vector<ValueId> define_attention_grad(Builder& b, const std::vector<ValueId>& in, const Attrs& attrs);

}  // namespace amp
