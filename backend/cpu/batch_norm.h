// Batch normalisation on the CPU. Operators as in ops/batch_norm.cc. Sums over the batch are taken in fp64 over fp32
// partial sums of at most 256 elements; one thread per channel (or block of channels when there are no spatial dims).
#pragma once

#include "backend/cpu/workspace.h"

namespace amp {

Kernel batch_norm(const KernelArgs&, Carver&);        // (x, scale, bias, mean, var) -> y
Kernel batch_norm_train(const KernelArgs&, Carver&);  // (x, scale, bias) -> y, mean, var
Kernel batch_norm_grad(const KernelArgs&, Carver&);   // (dy, x, scale, mean, var) {train} -> dx, dscale, dbias

}  // namespace amp
