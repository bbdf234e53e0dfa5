// Slice hoisting: avoids computing elements that are sliced away later. A Slice is moved before nodes that compute each
// position separately (products with weights, elementwise operators, norms, dropout). So after the last attention of an
// encoder of which only the first token is read, one token per sequence is computed. Results do not change; gradients
// are summed only over positions with nonzero gradients.
#pragma once

#include "graph/builder.h"

namespace amp {

// Requires a graph before autodiff with fused operators. Unchanged if no matrix product becomes smaller.
Graph hoist_slices(const Graph& g, const Evaluator& evaluator);

}  // namespace amp
