// Finds adapters of low rank (LoRA) that a file already contains as nodes: y = x W + s (x A) B.
#pragma once

#include <vector>

#include "graph/source.h"

namespace amp {

struct LowRankPairs {
  // Per SourceValue: 1 if it belongs to such an adapter. factor: a stored A or B, also packed or quantized. scale: a
  // stored floating-point number that multiplies x A, the product or B. zeros: a stored tensor of zeros that only pads
  // B to the columns of a wider map.
  std::vector<char> factor, scale, zeros;
  std::vector<char> sums;  // per node: 1 for an Add of x W and s (x A) B
};

// Requires that W, A and B are stored and that x reaches both branches. Only views, dropout and factors may be between
// the two products. The inner extent must not be larger than the outer ones.
LowRankPairs find_low_rank_pairs(const SourceGraph& g);

}  // namespace amp
