// The activations that com.microsoft's fused operators name by the attribute `activation`.
#pragma once

#include "graph/lower.h"

namespace amp {

// Applies the activation `name` to x; an empty name is the identity. Parameters are in the order of the operator's
// schema (alpha, beta; Clip: min, max). Names that onnxruntime's optimizers do not write are unsupported.
ValueId fused_activation(const Lowering&, ValueId x, const std::string& name, const std::vector<double>& parameters);

}  // namespace amp
