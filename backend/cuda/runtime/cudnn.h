// cuDNN: its handle, the workspace of its plans, and how many of them a run may compile.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "backend/cuda/device.h"

struct cudnnContext;

namespace amp::cuda {

// A growing buffer that all plans share, which is safe because work on the stream is ordered. Plans made before it
// grew, and their recordings, keep the smaller buffer.
class SharedMemory {
 public:
  DeviceMemory get(CudaDevice& device, int64_t bytes, const char* phase);

 private:
  DeviceMemory memory_;
  int64_t bytes_ = 0;
};

// cuDNN, opened at first use. Destroy it before the device's stream. Plans may outlive it, but must not run then.
class Cudnn {
 public:
  explicit Cudnn(CudaDevice& device) : device_(device) {}

  // Returns the version of cudnn-frontend's headers (cmake/cudnn_frontend.cmake), such as "1.18.0". Returns an empty
  // string if the build did not have them.
  static std::string headers();

  // Returns false, with one warning, if the library is missing.
  bool open();
  std::shared_ptr<cudnnContext> handle() const { return handle_; }
  CudaDevice& device() const { return device_; }
  // Returns workspace that all plans share.
  DeviceMemory workspace(int64_t bytes) { return workspace_.get(device_, bytes, "cuDNN's workspace"); }

 private:
  CudaDevice& device_;
  bool tried_ = false;
  std::shared_ptr<cudnnContext> handle_;
  SharedMemory workspace_;
};

// Limits how many plans of one kind (convolutions or attentions) a run compiles. cuDNN needs up to a second per plan,
// which would dominate runs whose batches have many shapes. After `most` shapes, new shapes use the built-in kernels.
class PlanBound {
 public:
  PlanBound(int most, const char* of) : most_(most), of_(of) {}
  // Returns whether one more plan may be compiled. Prints a warning at the first plan that may not.
  bool take();

 private:
  int most_, taken_ = 0;
  const char* of_;
};

// Calls `attempt`, which compiles a plan, and clears CUDA's error state. Ignores errors of cuDNN's headers and a lack
// of memory for the workspace; there is then no plan.
void try_plan(const std::function<void()>& attempt);

// A cache of the plans of one kind, each compiled once. Library: LibraryConvolution or LibraryAttention.
template <class Library>
class CudnnPlans {
 public:
  CudnnPlans(int most, const char* of) : bound_(most, of) {}

  // Returns the plan of a key. The first call for a key compiles the plan by make(). Returns null if make() does, or if
  // no more plans may be compiled.
  template <class Make>
  std::shared_ptr<Library> find(const std::string& key, Make make) {
    const auto known = plans_.find(key);
    if (known != plans_.end()) return known->second;
    std::shared_ptr<Library> plan;
    if (bound_.take()) try_plan([&] { plan = make(); });
    return plans_[key] = std::move(plan);
  }

 private:
  PlanBound bound_;
  std::map<std::string, std::shared_ptr<Library>> plans_;  // null: the key has no plan
};

}  // namespace amp::cuda
