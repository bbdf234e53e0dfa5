// Convolution and its two gradients on the CPU. Inputs and attributes as in ops/conv.cc:
//   Conv(x, w, bias?) -> y       ConvGradX(dy, w) {dims} -> dx       ConvGradW(x, dy) {dims} -> dw
// fp64: plain loops (conv_plain.h). fp32 and 16-bit storage: by shape, matrix products (conv_pointwise.h), Winograd's
// tiles (conv_winograd.h), lanes along images (conv_batch.h), along channels (conv_channels.h) or along pixels
// (conv_direct.h). Products, and lanes along channels, multiply bf16 as it is stored where the CPU has AMX or
// avx512_bf16, Winograd's tiles are cut from it (not with AMX); else what has 16 bits is widened first. The same bits
// for any number of threads.
#pragma once

#include "backend/cpu/conv/conv_shape.h"
#include "backend/cpu/stored.h"
#include "backend/cpu/workspace.h"

namespace amp {

Kernel conv_forward(const KernelArgs&, Carver&);
Kernel conv_grad_x(const KernelArgs&, Carver&);
Kernel conv_grad_w(const KernelArgs&, Carver&);

// Of fp32 and 16-bit storage, by the kernels that are the fastest for the shape and the types. bias may be absent.
Kernel fastest_conv(const ConvShape&, Carver&, const Stored& x, const Stored& w, const Stored& bias,
                    const StoredOut& y);
Kernel fastest_conv_grad_x(const ConvShape&, Carver&, const Stored& dy, const Stored& w, const StoredOut& dx);
Kernel fastest_conv_grad_w(const ConvShape&, Carver&, const Stored& x, const Stored& dy, const StoredOut& dw);

}  // namespace amp
