// Composites: spelled-out subgraphs of a bound graph become one core operator: LayerNorm and RMSNorm in every spelling
// that exporters write, GELU (erf and tanh), linear + bias, a scaled product. Each keeps its meaning to rounding; a
// composite is formed only where the precision plan gives all its nodes one compute type.
#pragma once

#include <vector>

#include "graph/builder.h"

namespace amp {

// compute: by source node, or empty when everything computes in one type.
Graph form_composites(const Graph& g, const std::vector<DType>& compute, const Evaluator& evaluator);

}  // namespace amp
