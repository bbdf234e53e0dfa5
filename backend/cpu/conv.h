// Convolution and its two gradients on the CPU. Inputs and attributes as in ops/conv.cc:
//   Conv(x, w, bias?) -> y       ConvGradX(dy, w) {dims} -> dx       ConvGradW(x, dy) {dims} -> dw
// fp64: plain loops (conv_plain.h). fp32 and 16-bit storage: the direct kernels (conv_direct.h). The same bits for any
// number of threads.
#pragma once

#include "backend/cpu/workspace.h"

namespace amp {

Kernel conv_forward(const KernelArgs&, Carver&);
Kernel conv_grad_x(const KernelArgs&, Carver&);
Kernel conv_grad_w(const KernelArgs&, Carver&);

}  // namespace amp
