// What is spelled out before a graph is differentiated a second time: operators that stand for several and have a
// gradient that is one kernel, or none (OpDef::definition).
#pragma once

#include "graph/builder.h"

namespace amp {

// The graph with every node that has a definition replaced by it, down to operators that have none.
Graph expand_definitions(Graph graph, const Evaluator& evaluator);

}  // namespace amp
