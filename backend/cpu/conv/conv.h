// Convolution and its two gradients on the CPU. Inputs and attributes as in ops/conv.cc:
//   Conv(x, w, bias?) -> y       ConvGradX(dy, w) {dims} -> dx       ConvGradW(x, dy) {dims} -> dw
// fp64 is computed by plain loops (conv_plain.h). For fp32 and 16-bit storage the shape selects matrix products
// (conv_pointwise.h), Winograd (conv_winograd.h), or kernels that are vectorized over images (conv_batch.h), channels
// (conv_channels.h) or pixels (conv_direct.h). With AMX or avx512_bf16, matrix products and kernels vectorized over
// channels multiply bf16 directly. Winograd kernels read and write bf16 too. Other kernels need 16-bit operands to be
// converted first. Results have the same bits for any number of threads.
#pragma once

#include "backend/cpu/conv/conv_shape.h"
#include "backend/cpu/stored.h"
#include "backend/cpu/workspace.h"

namespace amp {

Kernel conv_forward(const KernelArgs&, Carver&);
Kernel conv_grad_x(const KernelArgs&, Carver&);
Kernel conv_grad_w(const KernelArgs&, Carver&);

// Return the fastest kernels for the shape and the types, which are fp32 or 16-bit. bias may be absent.
Kernel fastest_conv(const ConvShape&, Carver&, const Stored& x, const Stored& w, const Stored& bias,
                    const StoredOut& y);
Kernel fastest_conv_grad_x(const ConvShape&, Carver&, const Stored& dy, const Stored& w, const StoredOut& dx);
Kernel fastest_conv_grad_w(const ConvShape&, Carver&, const Stored& x, const Stored& dy, const StoredOut& dw);

}  // namespace amp
