// Convolutions by cuDNN (backend/cuda/convolution.h).
#pragma once

#include <memory>

#include "backend/cuda/convolution.h"

namespace amp::cuda {

// The library is opened when the first convolution is asked for. Destroy it before the device's stream; plans may
// outlive it.
class Cudnn {
 public:
  static constexpr int64_t kMostWorkspace = int64_t{256} << 20;  // for all convolutions together

  Cudnn(CudaDevice& device, bool tf32) : device_(device), tf32_(tf32) {}

  // Null where cuDNN has no deterministic algorithm within 256 MiB of workspace (shared by all plans), or no such
  // convolution: pads that differ at the two ends in a way that shows, 2^31 elements. Asks by heuristics, runs nothing.
  std::shared_ptr<LibraryConvolution> plan(const Convolution& what);

 private:
  struct Handle;
  DeviceMemory workspace(int64_t bytes);

  CudaDevice& device_;
  bool tf32_;
  bool tried_ = false;
  std::shared_ptr<Handle> handle_;
  DeviceMemory workspace_;
  int64_t workspace_bytes_ = 0;
};

}  // namespace amp::cuda
