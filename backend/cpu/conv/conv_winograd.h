// 3x3 convolutions of stride 1 by Winograd's minimal filtering (Lavin and Gray 2016): tiles of 2x2 or 4x4 outputs, each
// the sum over input channels of an elementwise product of transformed input (4x4 or 6x6) and transformed weight: 2.25
// or 4 times fewer products than the definition.
//
//   y  = A' [sum_c (G w G') * (B' x B)] A           F(2x2, 3x3), F(4x4, 3x3)
//   dw = G' [sum_tiles (B' x B) * (A dy A')] G      the transpose in w;  dx: the first with weights turned round
//
// Lanes run along tiles, images stay as they are (N, C, H, W); the products are packed matrix products, one for each
// place of a tile. Rounding: conv_winograd_tiles.h.
#pragma once

#include "backend/cpu/conv/conv_shape.h"
#include "backend/cpu/stored.h"
#include "backend/cpu/workspace.h"

namespace amp {

enum class Winograd { none, f2, f4 };  // outputs of a tile along an axis
// The tile by which a pass is the fastest; none: by the definition, which does no more than `saved` times its work.
Winograd winograd_tile(const ConvShape&, double saved = 1);
bool conv_winograd_fits(const ConvShape&);  // does the definition above hold?

// Images, and what becomes of them, are fp32 or bf16, which the transforms widen and round: the arithmetic is fp32. (In
// bf16 the transformed tiles would have to be rounded, several times what the rounding of the operands was.)
Kernel conv_winograd(const ConvShape&, Winograd, Carver&, const Stored& x, const float* w, const float* bias,
                     const StoredOut& y);
Kernel conv_winograd_grad_x(const ConvShape&, Winograd, Carver&, const Stored& dy, const float* w, const StoredOut& dx);
Kernel conv_winograd_grad_w(const ConvShape&, Winograd, Carver&, const Stored& x, const Stored& dy, float* dw);

}  // namespace amp
