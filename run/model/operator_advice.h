// Advice for operators that cannot be computed or trained.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

// Empty if there is no specific advice.
std::string operator_advice(const SourceGraph& graph, const SourceNode& node);

// Fails with exit 4 if the graph needs unknown operators. The message lists each such node and the parameters that it
// blocks.
void require_known_operators(const SourceGraph& graph, const std::vector<int>& outputs);

}  // namespace amp
