// Convolution and its two gradients on the CPU. Inputs and attributes as in ops/conv.cc:
//   Conv(x, w, bias?) -> y       ConvGradX(dy, w) {dims} -> dx       ConvGradW(x, dy) {dims} -> dw
// fp64: plain loops (conv_plain.h). fp32 and 16-bit storage: by shape, matrix products (conv_pointwise.h), lanes along
// channels (conv_channels.h) or along pixels (conv_direct.h). The same bits for any number of threads.
#pragma once

#include "backend/cpu/conv_shape.h"
#include "backend/cpu/workspace.h"

namespace amp {

Kernel conv_forward(const KernelArgs&, Carver&);
Kernel conv_grad_x(const KernelArgs&, Carver&);
Kernel conv_grad_w(const KernelArgs&, Carver&);

// In fp32, by the kernels that are the fastest for the shape. bias may be null.
Kernel fastest_conv(const ConvShape&, Carver&, const float* x, const float* w, const float* bias, float* y);
Kernel fastest_conv_grad_x(const ConvShape&, Carver&, const float* dy, const float* w, float* dx);
Kernel fastest_conv_grad_w(const ConvShape&, Carver&, const float* x, const float* dy, float* dw);

}  // namespace amp
