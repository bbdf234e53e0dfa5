// fp32 depthwise convolution (one input and one output channel per group; the number of groups is a multiple of
// 16), vectorized over the groups of packed images, channels last (conv_channels.h).
#pragma once

#include "backend/cpu/conv/conv_shape.h"
#include "backend/cpu/workspace.h"

namespace amp {

bool conv_depthwise_fits(const ConvShape&);

Kernel conv_depthwise(const ConvShape&, Carver&, const float* x, const float* w, const float* bias, float* y);
Kernel conv_depthwise_grad_x(const ConvShape&, Carver&, const float* dy, const float* w, float* dx);
Kernel conv_depthwise_grad_w(const ConvShape&, Carver&, const float* x, const float* dy, float* dw);

}  // namespace amp
