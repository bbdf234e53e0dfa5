// Pooling on the CPU. Operators and attributes as in ops/pool.cc. Computes in fp64, or in fp32 with any storage type. A
// plane (one channel of one image) is processed by one thread.
#pragma once

#include "backend/cpu/workspace.h"

namespace amp {

Kernel max_pool(const KernelArgs&, Carver&);           // (x) -> y, tap
Kernel max_pool_grad(const KernelArgs&, Carver&);      // (dy, tap) -> dx
Kernel max_pool_index(const KernelArgs&);              // (tap) -> flat index into the input
Kernel average_pool(const KernelArgs&, Carver&);       // (x) -> y
Kernel average_pool_grad(const KernelArgs&, Carver&);  // (dy) -> dx

}  // namespace amp
