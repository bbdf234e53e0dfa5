// Operator fusion: unfused subgraphs of a bound graph become one core operator. LayerNorm and RMSNorm in the forms
// that exporters write, GELU (erf and tanh), linear + bias, scaled products. Results are equal up to rounding. A
// subgraph is fused only if the precision plan gives all its nodes the same compute type.
#pragma once

#include <vector>

#include "graph/builder.h"

namespace amp {

// compute: compute type by source node; empty if all nodes compute in one type.
Graph fuse_operators(const Graph& g, const std::vector<DType>& compute, const Evaluator& evaluator);

}  // namespace amp
