// Matrix products without a library, to find out whether a library is at fault.
#pragma once

#include <functional>

#include "backend/cuda/device.h"

namespace amp::cuda {

// Returns a product in which each thread computes one element and sums in the order of k. It is many times slower than
// cuBLASLt.
std::function<void(const void* a, const void* b, void* c)> plain_product(CudaDevice& d, const Gemm& g);

}  // namespace amp::cuda
