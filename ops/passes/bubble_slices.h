// What is computed only to be sliced away is not computed: a Slice goes up through the nodes that compute each of its
// positions by itself (products with weights, elementwise operators, norms, dropout), so that behind the last attention
// of an encoder that is read at its first token alone, one token of each sequence is computed instead of all. Results
// are the same numbers; gradients sum over the positions whose gradient is not zero.
#pragma once

#include "graph/builder.h"

namespace amp {

// A graph before autodiff, with its composites formed. Unchanged where no product of matrices becomes smaller.
Graph bubble_up_slices(const Graph& g, const Evaluator& evaluator);

}  // namespace amp
