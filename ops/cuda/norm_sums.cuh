// Prepares the kernel of NormSums (ops/norm_sums.h), for NormSums nodes and for AddNormGradSums.
#pragma once

#include "ops/cuda/chunk_sums.cuh"

namespace amp::cuda {

Kernel prepare_norm_sums(const KernelArgs& a, Carver& carver, bool accumulate);

}  // namespace amp::cuda
