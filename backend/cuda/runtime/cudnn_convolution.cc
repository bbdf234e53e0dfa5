#include "backend/cuda/runtime/cudnn_convolution.h"

#ifdef ONNX_AMP_CUDNN_FRONTEND
#include <cuda_runtime.h>

#include <unordered_map>

#include "backend/cuda/runtime/cudnn_convolution_graph.h"
#include "backend/cuda/runtime/cudnn_plan.h"
#include "backend/cuda/runtime/timing.h"
#include "base/error.h"
#endif

namespace amp::cuda {

#ifndef ONNX_AMP_CUDNN_FRONTEND

std::shared_ptr<LibraryConvolution> CudnnConvolution::plan(const Convolution&) { return nullptr; }

#else

namespace {

class Plan final : public LibraryConvolution {
 public:
  Plan(Cudnn& cudnn, std::string key)
      : handle_(cudnn.handle()), stream_(static_cast<cudaStream_t>(cudnn.device().stream())), key_(std::move(key)) {}

  // Compiles the plan. Returns false if cuDNN has none within the limits.
  bool choose(Cudnn& cudnn, const Convolution& what, bool tf32) {
    return describe_convolution(graph_, what) && compile(graph_, cudnn, convolution_limits(what, tf32), workspace_);
  }

  std::string name() const override { return "cuDNN"; }
  bool may_wait() const override { return !is_capturing(stream_); }
  std::string key() const override { return cat("convolution ", key_); }
  bool run(const ConvolutionOperands& o) override {
    const auto plain = [](const void* p) { return const_cast<void*>(p); };
    std::unordered_map<int64_t, void*> at{{kA, plain(o.a)}, {kB, plain(o.b)}, {kC, o.c}};
    if (o.bias) at[kConvolutionBias] = plain(o.bias);
    return graph_.execute(handle_.get(), at, workspace_.get()).is_good();
  }

 private:
  std::shared_ptr<cudnnContext> handle_;
  cudaStream_t stream_;
  std::string key_;
  cudnn_frontend::graph::Graph graph_;
  DeviceMemory workspace_;
};

}  // namespace

std::shared_ptr<LibraryConvolution> CudnnConvolution::plan(const Convolution& what) {
  if (!cudnn_.open()) return nullptr;
  const std::string key = key_of(what);
  return plans_.find(key, [&] {
    auto plan = std::make_shared<Plan>(cudnn_, key);
    return plan->choose(cudnn_, what, tf32_) ? plan : nullptr;
  });
}

#endif

}  // namespace amp::cuda
