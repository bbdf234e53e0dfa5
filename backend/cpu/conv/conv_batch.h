// fp32 convolution of small images, vectorized over the images of a batch. Each pixel has a register tile of
// (channels) x (images). Taps outside an image are skipped; kernels that are vectorized over pixels (conv_direct.h)
// multiply them by zeros, which is expensive if images are small compared with the kernel. Both operands are
// transposed to (pixel, channel, image).
#pragma once

#include "backend/cpu/conv/conv_shape.h"
#include "backend/cpu/workspace.h"

namespace amp {

bool conv_batch_fits(const ConvShape&);
// Return true if the kernel needs less work than conv_direct. The work is estimated from the shape only.
bool conv_batch_gains(const ConvShape&);
bool conv_batch_grad_x_gains(const ConvShape&);
bool conv_batch_grad_w_gains(const ConvShape&);

Kernel conv_batch(const ConvShape&, Carver&, const float* x, const float* w, const float* bias, float* y);
Kernel conv_batch_grad_x(const ConvShape&, Carver&, const float* dy, const float* w, float* dx);
Kernel conv_batch_grad_w(const ConvShape&, Carver&, const float* x, const float* dy, float* dw);

}  // namespace amp
