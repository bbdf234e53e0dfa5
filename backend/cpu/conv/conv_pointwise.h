// Convolution by kernels of one pixel, stride 1, no padding: an image's channels are the rows of a matrix as they lie,
// so that it and its gradients are products (packed_gemm.h) of what is stored, whatever its type.
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
