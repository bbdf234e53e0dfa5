// cuDNN: its handle and workspace, and convolutions by it (backend/cuda/convolution.h).
#pragma once

#include <memory>

#include "backend/cuda/timed_choice.h"

struct cudnnContext;

namespace amp::cuda {

// The library is opened when it is first asked for something. Destroy it before the device's stream; plans may outlive
// it, but not run.
class Cudnn {
 public:
  static constexpr int64_t kMostWorkspace = int64_t{256} << 20;  // for all convolutions together

  // gpu: names the file that choices are kept in.
  Cudnn(CudaDevice& device, const std::string& gpu, bool tf32);

  // Null where cuDNN has no deterministic algorithm within 256 MiB of workspace (shared by all plans), or no such
  // convolution: pads that differ at the two ends in a way that shows, 2^31 elements. Else what is the fastest of the
  // library's first choices, timed at first use: for operands that lie with channels last those alone, else with
  // channels first and last. Asks by heuristics, runs nothing.
  std::shared_ptr<LibraryConvolution> plan(const Convolution& what);

  // For other layers of the library's. False, with a warning once: it is not there.
  bool open();
  std::shared_ptr<void> handle() const;  // keeps raw() alive
  cudnnContext* raw() const;
  DeviceMemory workspace(int64_t bytes) { return workspace_.at_least(device_, bytes); }

 private:
  struct Handle;
  class Buffer {
   public:
    DeviceMemory at_least(CudaDevice& device, int64_t bytes);

   private:
    DeviceMemory memory_;
    int64_t bytes_ = 0;
  };
  void add_plans(const Convolution& what, bool last, std::vector<TimedChoice::Candidate>& to);

  static constexpr int kTried = 3;
  CudaDevice& device_;
  bool tf32_;
  bool tried_ = false;
  std::shared_ptr<Handle> handle_;
  AutotuneCache choices_;
  Buffer workspace_, layout_;  // the library's; operands with their channels last
};

}  // namespace amp::cuda
