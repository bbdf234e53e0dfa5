// Fused attention by cuDNN (backend/cuda/attention.h), described to it through NVIDIA's cudnn-frontend headers. A build
// that did not find them has the library without this (cmake/cudnn_frontend.cmake).
#pragma once

#include <map>
#include <memory>
#include <string>

#include "backend/autotune_cache.h"
#include "backend/cuda/attention.h"

namespace amp::cuda {

// The library is opened when the first attention is asked for. Destroy it before the device's stream; plans may outlive
// it, but not run.
class CudnnAttention {
 public:
  // gpu: names the file that choices are kept in.
  CudnnAttention(CudaDevice& device, const std::string& gpu);

  // "1.18.0": of the headers; empty: built without them.
  static std::string headers();

  // Null where cuDNN has nothing for it: no deterministic gradient within 1 GiB of workspace (shared by all plans).
  // Plans are shared by all who ask for the same. Runs nothing.
  std::shared_ptr<LibraryAttention> plan(const Attention& what);

 private:
  struct Handle;
  friend class CudnnAttentionPlan;
  DeviceMemory workspace(int64_t bytes);

  CudaDevice& device_;
  std::shared_ptr<AutotuneCache> choices_;
  bool tried_ = false;
  std::shared_ptr<Handle> handle_;
  std::map<std::string, std::shared_ptr<LibraryAttention>> plans_;  // null: there is none
  DeviceMemory workspace_;
  int64_t workspace_bytes_ = 0;
};

}  // namespace amp::cuda
