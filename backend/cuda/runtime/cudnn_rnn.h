// Recurrent layers by cuDNN (backend/cuda/recurrence.h).
#pragma once

#include <memory>

#include "backend/cuda/recurrence.h"

namespace amp::cuda {

class Cudnn;

// Null where cuDNN has no such layer, or it would be no gain: fp32 without TF32. The layer's input part, which the core
// operators get ready made, goes through a product with zeros and ones that puts each gate in its place; on tensor
// cores that is cheap and exact. Its memory (weights as cuDNN keeps them, what backward reads) is allocated here,
// workspace is the cuDNN's.
std::shared_ptr<LibraryRecurrence> plan_recurrence(CudaDevice& device, Cudnn& cudnn, const Recurrence& what, bool tf32);

}  // namespace amp::cuda
