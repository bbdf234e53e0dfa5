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

// Device memory that grows, shared by all who ask: work on the stream is ordered. Those who asked before it grew, and
// what was recorded with them, keep the one they have.
class SharedMemory {
 public:
  DeviceMemory get(CudaDevice& device, int64_t bytes, const char* phase);

 private:
  DeviceMemory memory_;
  int64_t bytes_ = 0;
};

// The library is opened when it is first asked for something. Destroy it before the device's stream; plans may outlive
// it, but not run.
class Cudnn {
 public:
  explicit Cudnn(CudaDevice& device) : device_(device) {}

  // "1.18.0": of the headers that describe graphs to it (cmake/cudnn_frontend.cmake); empty: built without them.
  static std::string headers();

  // False, with a warning once: it is not there.
  bool open();
  std::shared_ptr<cudnnContext> handle() const { return handle_; }
  CudaDevice& device() const { return device_; }
  // Shared by all plans.
  DeviceMemory workspace(int64_t bytes) { return workspace_.get(device_, bytes, "cuDNN's workspace"); }

 private:
  CudaDevice& device_;
  bool tried_ = false;
  std::shared_ptr<cudnnContext> handle_;
  SharedMemory workspace_;
};

// Counts the plans of one kind that are compiled in a run. cuDNN needs up to a second for one, and batches of ever new
// shapes would spend their time there: after `most` shapes, the built-in kernels compute the new ones.
class PlanBound {
 public:
  PlanBound(int most, const char* of) : most_(most), of_(of) {}
  // Whether one more may be compiled; a warning once when none may.
  bool take();

 private:
  int most_, taken_ = 0;
  const char* of_;
};

// Calls `attempt`, which compiles a plan, and clears CUDA's error state. Errors of cuDNN's headers, and of a lack of
// memory for the workspace, mean that there is no plan.
void try_plan(const std::function<void()>& attempt);

// The plans of one kind by what they compute, each compiled once. Library: LibraryConvolution or LibraryAttention.
template <class Library>
class CudnnPlans {
 public:
  CudnnPlans(int most, const char* of) : bound_(most, of) {}

  // make(): a compiled plan, or null. Null: there is none for this key, or no more may be compiled.
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
  std::map<std::string, std::shared_ptr<Library>> plans_;  // null: there is none
};

}  // namespace amp::cuda
