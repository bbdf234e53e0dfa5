// Batch normalisation on the CPU. Operators as in ops/batch_norm.cc. Sums over the batch are taken in fp64 over fp32
// partial sums of at most 256 elements; one thread per channel (or block of channels, where their planes are small).
#pragma once

#include "backend/cpu/workspace.h"

namespace amp {

// Attribute `activation`, of all three: what is done to y = (x - mean) rstd scale + bias before it is stored
// (ops/passes/batch_norm_fusion.h); `min` and `max` of a clip, `cut_rounded` where the gradient's clip is of y rounded
// to bf16. The gradient then takes the bias behind its other inputs.
enum class NormActivation : uint8_t { none, relu, clip };

Kernel batch_norm(const KernelArgs&, Carver&);        // (x, scale, bias, mean, var) -> y
Kernel batch_norm_train(const KernelArgs&, Carver&);  // (x, scale, bias) -> y, mean, var
Kernel batch_norm_grad(const KernelArgs&, Carver&);   // (dy, x, scale, mean, var) {train} -> dx, dscale, dbias

}  // namespace amp
