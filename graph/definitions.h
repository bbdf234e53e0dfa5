// What is spelled out before a graph is differentiated a second time: operators that stand for several and have a
// gradient that is one kernel, or none (OpDef::definition).
#pragma once

#include <vector>

#include "graph/builder.h"
#include "graph/source.h"

namespace amp {

// The graph with every node that has a definition replaced by it, down to operators that have none.
Graph expand_definitions(Graph graph, const Evaluator& evaluator);

// E_NO_SECOND_GRADIENT names an operator without a gradient through which `of`, made of gradients, depends on wrt.
// source: what the graph was bound from.
void require_second_gradients(const Graph& graph, const std::vector<ValueId>& wrt, const std::vector<ValueId>& of,
                              const SourceGraph& source);

}  // namespace amp
