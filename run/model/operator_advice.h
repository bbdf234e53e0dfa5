// Errors and advice for operators that cannot be computed or trained.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

// Returns what the user can do about a node that cannot be computed or trained, or "" if there is no specific advice.
std::string operator_advice(const SourceGraph& graph, const SourceNode& node);

// Throws an error (exit 4) if the outputs need unknown operators. The message lists each such node and the parameters
// that it separates from the outputs.
void require_known_operators(const SourceGraph& graph, const std::vector<int>& outputs);

}  // namespace amp
