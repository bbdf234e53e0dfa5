// Batch normalization on the CPU. Operators as in ops/batch_norm.cc. Sums over the batch are fp64 sums of fp32 partial
// sums of at most 256 elements. One thread processes a channel, or a block of channels if their planes (one channel of
// one image) are small.
#pragma once

#include "backend/cpu/workspace.h"

namespace amp {

// Attribute `activation` of all three operators: the function that is applied to y = (x - mean) rstd scale + bias
// before y is stored (ops/passes/batch_norm_fusion.h). Attributes `min` and `max` are the bounds of clip. With
// `cut_rounded` the gradient of clip compares these bounds with y rounded to bf16. With an activation, the gradient
// operator takes the bias as its last input.
enum class NormActivation : uint8_t { none, relu, clip };

Kernel batch_norm(const KernelArgs&, Carver&);        // (x, scale, bias, mean, var) -> y
Kernel batch_norm_train(const KernelArgs&, Carver&);  // (x, scale, bias) -> y, mean, var
Kernel batch_norm_grad(const KernelArgs&, Carver&);   // (dy, x, scale, mean, var) {train} -> dx, dscale, dbias

}  // namespace amp
