// GridSample in 1 to 3 spatial dimensions. Attributes: mode (0 nearest, 1 linear, 2 cubic), padding (0 zeros, 1
// border, 2 reflection), align. x (N, C, in...), grid (N, out..., d) with coordinates in [-1, 1], innermost
// dimension first.
//
//   GridSample(x, grid) -> y (N, C, out...);  GridSampleGrad(x, grid, dy) -> dx, dgrid
#pragma once

#include "backend/cpu/workspace.h"

namespace amp {

Kernel grid_sample(const KernelArgs& a, Carver& c);
Kernel grid_sample_grad(const KernelArgs& a, Carver& c);

}  // namespace amp
