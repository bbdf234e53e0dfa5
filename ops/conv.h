// Lowering of Conv, for operators that contain a convolution.
#pragma once

#include "graph/lower.h"

namespace amp {

// x (N, C, ...), w (M, C / group, ...), bias (M) or invalid. The node must have Conv's attributes. Rank 3 to 5.
ValueId convolution(const Lowering&, ValueId x, ValueId w, ValueId bias);

}  // namespace amp
