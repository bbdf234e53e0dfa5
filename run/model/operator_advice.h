// What to do about an operator that cannot be computed or trained.
#pragma once

#include <string>

#include "graph/source.h"

namespace amp {

// Empty where nothing more than a general hint is known.
std::string operator_advice(const SourceGraph& graph, const SourceNode& node);

}  // namespace amp
