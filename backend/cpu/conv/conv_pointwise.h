// Convolution with kernels of one pixel, stride 1 and no padding. The stored image is already a matrix with one row per
// channel and one column per pixel, so the convolution and its gradients are matrix products (packed_gemm.h) of the
// stored operands, of any type.
#pragma once

#include "backend/cpu/conv/conv_shape.h"
#include "backend/cpu/stored.h"
#include "backend/cpu/workspace.h"

namespace amp {

bool conv_pointwise_fits(const ConvShape&);

Kernel conv_pointwise(const ConvShape&, Carver&, const Stored& x, const Stored& w, const Stored& bias,
                      const StoredOut& y);
Kernel conv_pointwise_grad_x(const ConvShape&, Carver&, const Stored& dy, const Stored& w, const StoredOut& dx);
Kernel conv_pointwise_grad_w(const ConvShape&, Carver&, const Stored& x, const Stored& dy, float* dw);

}  // namespace amp
