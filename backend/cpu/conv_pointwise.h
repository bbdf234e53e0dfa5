// Convolution by kernels of one pixel, stride 1, no padding: an image's channels are the rows of a matrix as they lie,
// so that it and its gradients are products (packed_gemm.h) without any packing of images.
#pragma once

#include "backend/cpu/conv_shape.h"
#include "backend/cpu/workspace.h"

namespace amp {

bool conv_pointwise_fits(const ConvShape&);

Kernel conv_pointwise(const ConvShape&, Carver&, const float* x, const float* w, const float* bias, float* y);
Kernel conv_pointwise_grad_x(const ConvShape&, Carver&, const float* dy, const float* w, float* dx);
Kernel conv_pointwise_grad_w(const ConvShape&, Carver&, const float* x, const float* dy, float* dw);

}  // namespace amp
