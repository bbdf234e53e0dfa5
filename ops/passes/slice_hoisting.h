// Slice hoisting: avoids computing elements that are sliced away later. A Slice is moved before nodes that compute each
// position separately (products with weights, elementwise operators, norms, dropout). For example, if only the first
// token of an encoder's output is read, one token per sequence is computed after the last attention. Results do not
// change, and gradients are summed only over positions with nonzero gradients.
#pragma once

#include "graph/builder.h"

namespace amp {

// Moves Slices in a graph with fused operators, before autodiff. Changes nothing if no matrix product becomes smaller.
Graph hoist_slices(const Graph& g, const Evaluator& evaluator);

}  // namespace amp
