// Decomposes fused operators, so that a graph can be differentiated a second time. The gradient of a fused operator is
// a single kernel, which has no gradient rule (OpDef::decomposition).
#pragma once

#include <vector>

#include "graph/builder.h"
#include "graph/source.h"

namespace amp {

// Replaces every node that has a decomposition, repeatedly, until no node has one.
Graph decompose_operators(Graph graph, const Evaluator& evaluator);

// Fails with E_NO_SECOND_GRADIENT if a path from wrt to `of` (gradients) contains an operator without a gradient rule.
// source: the model that `graph` was bound from; the message names its nodes.
void require_second_gradients(const Graph& graph, const std::vector<ValueId>& wrt, const std::vector<ValueId>& of,
                              const SourceGraph& source);

}  // namespace amp
