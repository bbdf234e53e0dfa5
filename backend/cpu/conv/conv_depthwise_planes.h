// fp32 depthwise convolution of large planes (a plane is one channel of one image), vectorized over pixels. A padded
// plane is read as one long row, so an output vector is the weighted sum of one shifted vector per tap. Pixels between
// the rows of the output are computed and dropped. Strides are handled as in conv_direct.h. Small planes are faster
// with conv_depthwise.h.
#pragma once

#include "backend/cpu/conv/conv_shape.h"
#include "backend/cpu/workspace.h"

namespace amp {

bool conv_depthwise_planes_fits(const ConvShape&);
bool conv_depthwise_planes_gain(const ConvShape&);
Kernel conv_depthwise_planes(const ConvShape&, Carver&, const float* x, const float* w, const float* bias, float* y);
Kernel conv_depthwise_planes_grad_x(const ConvShape&, Carver&, const float* dy, const float* w, float* dx);
Kernel conv_depthwise_planes_grad_w(const ConvShape&, Carver&, const float* x, const float* dy, float* dw);

}  // namespace amp
