// NormSums (ops/norm_sums.h), for who has it as a part.
#pragma once

#include "ops/cuda/chunk_sums.cuh"

namespace amp::cuda {

Kernel prepare_norm_sums(const KernelArgs& a, Carver& carver, bool accumulate);

}  // namespace amp::cuda
