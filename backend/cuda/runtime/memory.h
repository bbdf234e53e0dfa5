// Memory of a CUDA device: single allocations, an arena that grows without moving, and pinned host memory for uploads.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <memory>

#include "backend/device.h"

namespace amp::cuda {

// Counts the bytes allocated through a device.
class MemoryUse {
 public:
  void add(int64_t bytes) {
    const int64_t v = now_ += bytes;
    for (int64_t most = peak_; v > most && !peak_.compare_exchange_weak(most, v);) {
    }
  }
  int64_t now() const { return now_; }
  int64_t peak() const { return peak_; }

 private:
  std::atomic<int64_t> now_{0}, peak_{0};
};

// Throws E_CUDA (Exit::memory) with the name of the failed action if status is an error, or E_OOM if memory is
// exhausted.
void ensure(cudaError_t status, const char* what);

DeviceMemory allocate_device(int64_t bytes, cudaStream_t stream, std::shared_ptr<MemoryUse> use);

// Returns an arena that reserves its address space once and maps physical memory on demand (the driver's virtual memory
// management).
std::unique_ptr<Arena> make_device_arena(int device, std::shared_ptr<MemoryUse> use);

// Copies to the device without waiting for it. upload() first copies the bytes to pinned memory. The pinned memory has
// two halves, which are used in turn. A half is reused after the device has read it.
class Uploader {
 public:
  explicit Uploader(cudaStream_t stream);
  ~Uploader();
  Uploader(const Uploader&) = delete;
  Uploader& operator=(const Uploader&) = delete;
  void upload(void* to, const void* host, int64_t bytes);

 private:
  static constexpr int64_t kHalf = 32 << 20;
  cudaStream_t stream_;
  char* pinned_ = nullptr;
  cudaEvent_t read_[2] = {};
  int half_ = 0;
  int64_t used_ = 0;
};

}  // namespace amp::cuda
