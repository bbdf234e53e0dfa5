// Operator fusion: an unfused subgraph of a bound graph becomes one core operator. Covered are LayerNorm and
// RMSNorm in the forms that exporters write, GELU (erf and tanh), linear + bias, and scaled products. Results are
// equal up to rounding. A subgraph is fused only if the precision plan gives all its nodes the same compute type.
#pragma once

#include <vector>

#include "graph/builder.h"

namespace amp {

// Returns the graph with operators fused. compute: type by source node; empty if all nodes compute in one type.
Graph fuse_operators(const Graph& g, const std::vector<DType>& compute, const Evaluator& evaluator);

}  // namespace amp
