// Advice for operators that cannot be computed or trained.
#pragma once

#include <string>

#include "graph/source.h"

namespace amp {

// Empty if there is no specific advice.
std::string operator_advice(const SourceGraph& graph, const SourceNode& node);

}  // namespace amp
