// Convolutions by cuDNN (backend/cuda/convolution.h), described as graphs. A build without cudnn-frontend's headers has
// none (cmake/cudnn_frontend.cmake).
#pragma once

#include <memory>
#include <string>

#include "backend/cuda/convolution.h"
#include "backend/cuda/runtime/cudnn.h"

namespace amp::cuda {

// Must be destroyed before its Cudnn. Plans may outlive both objects, but must not run then.
class CudnnConvolution {
 public:
  static constexpr int kMostPlans = 512;                         // plans that a run may compile
  static constexpr int64_t kMostWorkspace = int64_t{512} << 20;  // bytes for all convolutions together

  CudnnConvolution(Cudnn& cudnn, bool tf32) : cudnn_(cudnn), tf32_(tf32) {}

  // Returns the plan that the library's heuristics rank first, without running it. Equal descriptions share one plan.
  // Returns null if cuDNN has no deterministic plan within 512 MiB of workspace (shared by all plans).
  std::shared_ptr<LibraryConvolution> plan(const Convolution& what);

 private:
  Cudnn& cudnn_;
  bool tf32_;
  CudnnPlans<LibraryConvolution> plans_{kMostPlans, "convolutions"};
};

}  // namespace amp::cuda
