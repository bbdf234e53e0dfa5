// Copies between strided regions on a CUDA device, for Transpose, Slice, Concat, Split and Expand.
#pragma once

#include "backend/cuda/device.h"
#include "backend/strided_copy.h"

namespace amp::cuda {

// Returns a kernel that copies src[from] to dst[to] over dims. The element types are equal and the regions do not
// overlap. Throws E_CUDA_SIZE (Exit::unsupported) if more than eight axes remain after merging.
Kernel strided_copy(CudaDevice& d, const Tensor& src, const Region& from, const Tensor& dst, const Region& to,
                    const Dims& dims);

}  // namespace amp::cuda
