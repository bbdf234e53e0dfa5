// Copies between strided regions on a CUDA device, for Transpose, Slice, Concat, Split and Expand.
#pragma once

#include "backend/cuda/device.h"
#include "backend/strided_copy.h"

namespace amp::cuda {

// Copies src[src region] to dst[dst region] over dims. The element types are equal and the regions do not overlap.
// E_RANK if more than eight axes remain after merging.
Kernel strided_copy(CudaDevice& d, const Tensor& src, const Region& from, const Tensor& dst, const Region& to,
                    const Dims& dims);

}  // namespace amp::cuda
