// 3x3 convolutions with stride 1 by Winograd's minimal filtering (Lavin and Gray 2016). Tiles have 2x2 or 4x4
// outputs; each is the sum over input channels of an elementwise product of the transformed input (4x4 or 6x6) and
// the transformed weight. This takes 2.25 or 4 times fewer products than the definition.
//
//   y  = A' [sum_c (G w G') * (B' x B)] A           F(2x2, 3x3), F(4x4, 3x3)
//   dw = G' [sum_tiles (B' x B) * (A dy A')] G      the adjoint in w;  dx: forward with reversed taps
//
// Vectorized over tiles; images stay (N, C, H, W). The products are packed matrix products, one for each place
// (element) of a transformed tile. conv_winograd_tiles.h states the rounding errors.
#pragma once

#include "backend/cpu/conv/conv_shape.h"
#include "backend/cpu/stored.h"
#include "backend/cpu/workspace.h"

namespace amp {

enum class Winograd { none, f2, f4 };  // f2, f4: a tile has 2 or 4 outputs along each axis
// Returns the fastest tile size. Returns none unless the direct computation takes at least `saved` times the work of
// Winograd's algorithm.
Winograd winograd_tile(const ConvShape&, double saved = 1);
bool conv_winograd_fits(const ConvShape&);  // true for 2-D, 3x3 kernels, stride 1, one group

// Images and results are fp32 or bf16. Transforms convert bf16 and round results; arithmetic is fp32. (Rounding the
// transformed tiles to bf16 would cause errors several times those of rounding the operands.)
Kernel conv_winograd(const ConvShape&, Winograd, Carver&, const Stored& x, const float* w, const float* bias,
                     const StoredOut& y);
Kernel conv_winograd_grad_x(const ConvShape&, Winograd, Carver&, const Stored& dy, const float* w, const StoredOut& dx);
Kernel conv_winograd_grad_w(const ConvShape&, Winograd, Carver&, const Stored& x, const Stored& dy, float* dw);

}  // namespace amp
