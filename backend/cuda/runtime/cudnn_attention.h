// Fused attention by cuDNN (backend/cuda/attention.h), described to it as graphs. A build that did not find
// cudnn-frontend's headers has none of it (cmake/cudnn_frontend.cmake).
#pragma once

#include <memory>
#include <string>

#include "backend/autotune_cache.h"
#include "backend/cuda/attention.h"
#include "backend/cuda/runtime/cudnn.h"

namespace amp::cuda {

// Destroy it before the Cudnn that it plans with; plans may outlive both, but not run.
class CudnnAttention {
 public:
  static constexpr int kMostPlans = 32;  // in a run: 16 shapes, forward and gradient

  // gpu: names the file that choices are kept in.
  CudnnAttention(Cudnn& cudnn, const std::string& gpu);

  // Null where cuDNN has nothing for it: no deterministic gradient within 1 GiB of workspace (shared by all plans), or
  // bits of dropout that need more than that. Plans are shared by all who ask for the same. Runs nothing.
  std::shared_ptr<LibraryAttention> plan(const Attention& what);

 private:
  Cudnn& cudnn_;
  std::shared_ptr<AutotuneCache> choices_;
  SharedMemory kept_;  // bits of dropout
  CudnnPlans<LibraryAttention> plans_{kMostPlans, "attentions"};
};

}  // namespace amp::cuda
