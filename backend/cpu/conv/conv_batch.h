// Convolution in fp32 of small images, lanes along the images of a batch: a register tile of (channels) x (images) for
// each pixel. Taps outside an image are left out instead of multiplied by zeros, which is what forms with lanes along
// pixels (conv_direct.h) spend most on where images are small beside the kernel. Both operands are transposed for it,
// to (pixel, channel, image).
#pragma once

#include "backend/cpu/conv/conv_shape.h"
#include "backend/cpu/workspace.h"

namespace amp {

bool conv_batch_fits(const ConvShape&);
// And is it, by a count of operations, faster than conv_direct? From the shape alone.
bool conv_batch_gains(const ConvShape&);
bool conv_batch_grad_x_gains(const ConvShape&);
bool conv_batch_grad_w_gains(const ConvShape&);

Kernel conv_batch(const ConvShape&, Carver&, const float* x, const float* w, const float* bias, float* y);
Kernel conv_batch_grad_x(const ConvShape&, Carver&, const float* dy, const float* w, float* dx);
Kernel conv_batch_grad_w(const ConvShape&, Carver&, const float* x, const float* dy, float* dw);

}  // namespace amp
