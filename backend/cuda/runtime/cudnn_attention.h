// Fused attention by cuDNN (backend/cuda/attention.h), described as graphs. A build without cudnn-frontend's headers
// has none (cmake/cudnn_frontend.cmake).
#pragma once

#include <memory>
#include <string>

#include "backend/autotune_cache.h"
#include "backend/cuda/attention.h"
#include "backend/cuda/runtime/cudnn.h"

namespace amp::cuda {

// Must be destroyed before its Cudnn. Plans may outlive both objects, but must not run then.
class CudnnAttention {
 public:
  static constexpr int kMostPlans = 32;  // plans that a run may compile: 16 shapes, forward and gradient

  // gpu: part of the name of the file that stores choices.
  CudnnAttention(Cudnn& cudnn, const std::string& gpu);

  // Returns a compiled plan, without running it. Equal descriptions share one plan. Returns null if cuDNN has no
  // deterministic plan within 1 GiB of workspace (shared by all plans), or if the dropout mask is larger than 1 GiB.
  std::shared_ptr<LibraryAttention> plan(const Attention& what);

 private:
  Cudnn& cudnn_;
  std::shared_ptr<AutotuneCache> choices_;
  SharedMemory kept_;  // memory of dropout masks
  CudnnPlans<LibraryAttention> plans_{kMostPlans, "attentions"};
};

}  // namespace amp::cuda
