#include "backend/cuda/runtime/cudnn_attention.h"

#include <cuda_runtime.h>
#include <cudnn.h>

#include <iostream>
#include <unordered_map>

#include "backend/cuda/runtime/timing.h"
#include "base/error.h"

#ifdef ONNX_AMP_CUDNN_FRONTEND
#include "backend/cuda/runtime/cudnn_attention_graph.h"
#endif

namespace amp::cuda {

struct CudnnAttention::Handle {
  cudnnHandle_t value = nullptr;
  ~Handle() {
    if (value) cudnnDestroy(value);
  }
};

CudnnAttention::CudnnAttention(CudaDevice& device, const std::string& gpu)
    : device_(device),
      choices_(std::make_shared<AutotuneCache>(cat("attention-", gpu, "-cudnn", cudnnGetVersion(), ".txt"))) {}

// Work on the stream is ordered, so that all plans can share one buffer; plans made before it grew keep the one they
// know.
DeviceMemory CudnnAttention::workspace(int64_t bytes) {
  if (bytes > workspace_bytes_) {
    workspace_ = device_.allocate(bytes);
    workspace_bytes_ = bytes;
  }
  return workspace_;
}

#ifndef ONNX_AMP_CUDNN_FRONTEND

std::string CudnnAttention::headers() { return {}; }
std::shared_ptr<LibraryAttention> CudnnAttention::plan(const Attention&) { return nullptr; }

#else

namespace {

namespace fe = cudnn_frontend;
constexpr int64_t kWorkspace = int64_t{1} << 30;

// Everything a plan depends on.
std::string key_of(const Attention& a) {
  const auto place = [](const HeadStrides& s) { return cat(s.batch, ',', s.token, ',', s.head); };
  std::string bias = "none";
  if (!a.bias.empty()) bias = to_string(a.bias);
  return cat(a.backward ? "gradient " : "forward ", name_of(a.type), ' ', a.batch, 'x', a.heads, ' ', a.queries, 'x',
             a.keys, ' ', a.width, ',', a.value_width, " q ", place(a.q), " k ", place(a.k), " v ", place(a.v), " y ",
             place(a.y), " bias ", bias, " scale ", a.scale);
}

}  // namespace

class CudnnAttentionPlan final : public LibraryAttention {
 public:
  CudnnAttentionPlan(CudnnAttention& from, const Attention& what, std::string key)
      : handle_(from.handle_),
        stream_(static_cast<cudaStream_t>(from.device_.stream())),
        what_(what),
        key_(std::move(key)),
        choices_(from.choices_) {}

  // False: cuDNN has nothing for it. Sets the workspace that run() wants.
  bool choose() {
    describe_attention(graph_, what_);
    return graph_.validate().is_good() && graph_.build_operation_graph(handle_->value).is_good() &&
           graph_.create_execution_plans({fe::HeurMode_t::A}).is_good() && graph_.check_support().is_good() &&
           graph_.build_plans().is_good() && graph_.get_workspace_size(bytes_).is_good() && bytes_ <= kWorkspace;
  }
  int64_t workspace_bytes() const { return bytes_; }
  void use(DeviceMemory workspace) { workspace_ = std::move(workspace); }

  std::string name() const override { return "cuDNN"; }
  bool may_wait() const override { return !is_capturing(stream_); }
  std::string key() const override { return cat("attention ", key_); }
  bool run(const AttentionOperands& o) override {
    const auto plain = [](const void* p) { return const_cast<void*>(p); };
    std::unordered_map<int64_t, void*> at{
        {kQ, plain(o.q)}, {kK, plain(o.k)}, {kV, plain(o.v)}, {kY, o.y}, {kStats, o.lse}};
    if (!what_.bias.empty()) at[kBias] = plain(o.bias);
    if (what_.backward) {
      at[kDy] = plain(o.dy);
      at[kDq] = o.dq;
      at[kDk] = o.dk;
      at[kDv] = o.dv;
    }
    return graph_.execute(handle_->value, at, workspace_.get()).is_good();
  }
  double milliseconds(const Kernel& work) override { return amp::cuda::milliseconds(stream_, work); }
  std::optional<bool> known_faster() const override {
    const std::optional<std::string> choice = choices_->find(key_);
    if (!choice || (*choice != "cudnn" && *choice != "own")) return std::nullopt;
    return *choice == "cudnn";
  }
  void remember(bool faster) override { choices_->keep(key_, faster ? "cudnn" : "own"); }

 private:
  std::shared_ptr<CudnnAttention::Handle> handle_;
  cudaStream_t stream_;
  Attention what_;
  std::string key_;
  std::shared_ptr<AutotuneCache> choices_;
  fe::graph::Graph graph_;
  int64_t bytes_ = 0;
  DeviceMemory workspace_;
};

std::string CudnnAttention::headers() {
  return cat(CUDNN_FRONTEND_MAJOR_VERSION, '.', CUDNN_FRONTEND_MINOR_VERSION, '.', CUDNN_FRONTEND_PATCH_VERSION);
}

std::shared_ptr<LibraryAttention> CudnnAttention::plan(const Attention& what) {
  if (!tried_) {
    tried_ = true;
    auto handle = std::make_shared<Handle>();
    const cudnnStatus_t status = cudnnCreate(&handle->value);
    if (status != CUDNN_STATUS_SUCCESS) handle->value = nullptr;
    if (handle->value &&
        cudnnSetStream(handle->value, static_cast<cudaStream_t>(device_.stream())) == CUDNN_STATUS_SUCCESS)
      handle_ = std::move(handle);
    else
      std::cerr << "warning: W_LIBRARY: cuDNN does not open (" << cudnnGetErrorString(status)
                << "); attention uses the built-in kernels\n";
  }
  if (!handle_) return nullptr;
  std::string key = key_of(what);
  const auto known = plans_.find(key);
  if (known != plans_.end()) return known->second;
  auto plan = std::make_shared<CudnnAttentionPlan>(*this, what, key);
  bool found = false;
  try {
    found = plan->choose();
  } catch (const std::exception&) {  // the headers throw where they are at a loss
  }
  cudaGetLastError();  // an attempt that failed is nobody's error
  if (found && plan->workspace_bytes() > 0) plan->use(workspace(plan->workspace_bytes()));
  return plans_[key] = found ? std::move(plan) : nullptr;
}

#endif

}  // namespace amp::cuda
