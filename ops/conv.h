// Lowers Conv, also for operators that contain a convolution.
#pragma once

#include "graph/lower.h"

namespace amp {

// Returns the convolution of x (N, C, ...), w (M, C / group, ...) and bias (M) or none, by the node's attributes.
ValueId convolution(const Lowering&, ValueId x, ValueId w, ValueId bias);

}  // namespace amp
