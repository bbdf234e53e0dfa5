#include "backend/cuda/runtime/cudnn.h"

#include <cuda_runtime.h>
#include <cudnn.h>

#include <exception>

#include "backend/memory_phase.h"
#include "base/error.h"
#include "base/message.h"

#ifdef ONNX_AMP_CUDNN_FRONTEND
#include <cudnn_frontend_version.h>
#endif

namespace amp::cuda {

std::string Cudnn::headers() {
#ifdef ONNX_AMP_CUDNN_FRONTEND
  return cat(CUDNN_FRONTEND_MAJOR_VERSION, '.', CUDNN_FRONTEND_MINOR_VERSION, '.', CUDNN_FRONTEND_PATCH_VERSION);
#else
  return {};
#endif
}

bool Cudnn::open() {
  if (tried_) return handle_ != nullptr;
  tried_ = true;
  cudnnHandle_t handle = nullptr;
  cudnnStatus_t status = cudnnCreate(&handle);
  if (status == CUDNN_STATUS_SUCCESS) {
    handle_ = std::shared_ptr<cudnnContext>(handle, [](cudnnContext* h) { cudnnDestroy(h); });
    status = cudnnSetStream(handle, static_cast<cudaStream_t>(device_.stream()));
  }
  if (status != CUDNN_STATUS_SUCCESS) {
    handle_.reset();
    print_message(Level::warning, cat("W_LIBRARY: cuDNN cannot be opened (", cudnnGetErrorString(status),
                                      "); the built-in kernels are used instead"));
  }
  return handle_ != nullptr;
}

DeviceMemory SharedMemory::get(CudaDevice& device, int64_t bytes, const char* phase) {
  if (bytes > bytes_) {
    memory_ = in_phase(phase, [&] { return device.allocate(bytes); });
    bytes_ = bytes;
  }
  return memory_;
}

bool PlanBound::take() {
  if (taken_ < most_) {
    ++taken_;
    return true;
  }
  if (taken_++ == most_)
    print_message(Level::warning, cat("W_LIBRARY: cuDNN has compiled plans for ", most_, ' ', of_,
                                      "; other shapes use the built-in kernels"));
  return false;
}

void try_plan(const std::function<void()>& attempt) {
  try {
    attempt();
  } catch (const Error& e) {
    // E_OOM is ignored: without memory for the plan's workspace, the built-in kernel is used.
    if (e.id() != "E_OOM") throw;
  } catch (const std::exception&) {  // cudnn-frontend throws exceptions for unsupported graphs
  }
  cudaGetLastError();  // clears the error of a failed attempt
}

}  // namespace amp::cuda
