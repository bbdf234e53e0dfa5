// The lowering of Conv, for operators that are a convolution and something else.
#pragma once

#include "graph/lower.h"

namespace amp {

// x (N, C, ...), w (M, C / group, ...), bias (M) or invalid; the node's attributes are Conv's. Rank 3 to 5.
ValueId convolution(const Lowering&, ValueId x, ValueId w, ValueId bias);

}  // namespace amp
