// Copies between strided regions on a CUDA device: what Transpose, Slice, Concat, Split and Expand are made of.
#pragma once

#include "backend/cuda/device.h"
#include "backend/strided_copy.h"

namespace amp::cuda {

// dst[dst region] = src[src region] over dims; the element types are equal, the regions do not overlap. E_RANK where
// more than eight axes cannot be merged.
Kernel strided_copy(CudaDevice& d, const Tensor& src, const Region& from, const Tensor& dst, const Region& to,
                    const Dims& dims);

}  // namespace amp::cuda
