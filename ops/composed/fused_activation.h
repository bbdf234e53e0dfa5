// The activation that com.microsoft's fused operators apply to their result, by its name in the attribute `activation`.
#pragma once

#include "graph/lower.h"

namespace amp {

// An empty name is the identity; parameters in the order of the operator's schema (alpha, beta; Clip: min, max).
// Unsupported for names that no optimiser writes.
ValueId fused_activation(const Lowering&, ValueId x, const std::string& name, const std::vector<double>& parameters);

}  // namespace amp
