// Attention by cuDNN. For each shape, mask form and precision, the first plan that cuDNN supports is compiled. The
// autotune cache stores whether the plan is faster than the built-in kernels. Without the frontend's headers, plan()
// returns null and the built-in kernels run.
#include "backend/cuda/runtime/cudnn_attention.h"

#include <cudnn.h>

#include "base/error.h"

#ifdef ONNX_AMP_CUDNN_FRONTEND
#include <cuda_runtime.h>

#include <unordered_map>

#include "backend/cuda/runtime/cudnn_attention_graph.h"
#include "backend/cuda/runtime/cudnn_plan.h"
#include "backend/cuda/runtime/timing.h"
#endif

namespace amp::cuda {

CudnnAttention::CudnnAttention(Cudnn& cudnn, const std::string& gpu)
    : cudnn_(cudnn),
      choices_(std::make_shared<AutotuneCache>(cat("attention-", gpu, "-cudnn", cudnnGetVersion(), ".txt"))) {}

#ifndef ONNX_AMP_CUDNN_FRONTEND

std::shared_ptr<LibraryAttention> CudnnAttention::plan(const Attention&) { return nullptr; }

#else

namespace {

// Returns a string of everything that a plan depends on.
std::string key_of(const Attention& a) {
  const auto place = [](const HeadStrides& s) { return cat(s.batch, ',', s.token, ',', s.head); };
  std::string bias = "none";
  if (!a.bias.empty()) bias = to_string(a.bias);
  return cat(a.backward ? "gradient " : "forward ", name_of(a.type), ' ', a.batch, 'x', a.heads, ' ', a.queries, 'x',
             a.keys, ' ', a.width, ',', a.value_width, " q ", place(a.q), " k ", place(a.k), " v ", place(a.v), " y ",
             place(a.y), " bias ", bias, " scale ", a.scale, a.causal ? " causal" : "", a.lengths ? " lengths" : "",
             a.kept_scale != 0 ? cat(" kept ", a.kept_scale) : std::string());
}

class Plan final : public LibraryAttention {
 public:
  Plan(Cudnn& cudnn, const Attention& what, std::string key, std::shared_ptr<AutotuneCache> choices)
      : handle_(cudnn.handle()),
        stream_(static_cast<cudaStream_t>(cudnn.device().stream())),
        what_(what),
        key_(std::move(key)),
        choices_(std::move(choices)) {}

  // Compiles the plan and reserves memory for the dropout mask. Returns false if cuDNN has no plan or the mask is too
  // large.
  bool choose(Cudnn& cudnn, SharedMemory& kept) {
    const int64_t bytes =
        what_.kept_scale == 0 ? 0 : what_.batch * what_.heads * what_.queries * what_.keys * size_of(what_.type);
    if (bytes > kMostKept) return false;
    describe_attention(graph_, what_);
    if (!compile(graph_, cudnn, {kAttentionWorkspace}, workspace_)) return false;
    if (bytes > 0) kept_ = kept.get(cudnn.device(), bytes, "dropout for cuDNN");
    return true;
  }

  std::string name() const override { return "cuDNN"; }
  bool may_wait() const override { return !is_capturing(stream_); }
  std::string key() const override { return cat("attention ", key_); }
  bool run(const AttentionOperands& o) override {
    const auto plain = [](const void* p) { return const_cast<void*>(p); };
    std::unordered_map<int64_t, void*> at{
        {kQ, plain(o.q)}, {kK, plain(o.k)}, {kV, plain(o.v)}, {kY, o.y}, {kStats, o.lse}};
    if (!what_.bias.empty()) at[kBias] = plain(o.bias);
    if (what_.lengths) {
      at[kQueryLengths] = plain(o.query_lengths);
      at[kKeyLengths] = plain(o.key_lengths);
    }
    if (what_.kept_scale != 0) at[kKept] = plain(o.kept);
    if (what_.backward) {
      at[kDy] = plain(o.dy);
      at[kDq] = o.dq;
      at[kDk] = o.dk;
      at[kDv] = o.dv;
    }
    return graph_.execute(handle_.get(), at, workspace_.get()).is_good();
  }
  void* kept() override { return kept_.get(); }
  double milliseconds(const Kernel& work) override { return amp::cuda::milliseconds(stream_, work); }
  std::optional<bool> known_faster() const override {
    const std::optional<std::string> choice = choices_->find(key_);
    if (!choice || (*choice != "cudnn" && *choice != "own")) return std::nullopt;
    return *choice == "cudnn";
  }
  void remember(bool faster) override { choices_->keep(key_, faster ? "cudnn" : "own"); }

 private:
  std::shared_ptr<cudnnContext> handle_;
  cudaStream_t stream_;
  Attention what_;
  std::string key_;
  std::shared_ptr<AutotuneCache> choices_;
  cudnn_frontend::graph::Graph graph_;
  DeviceMemory workspace_, kept_;
};

}  // namespace

std::shared_ptr<LibraryAttention> CudnnAttention::plan(const Attention& what) {
  if (!cudnn_.open()) return nullptr;
  const std::string key = key_of(what);
  return plans_.find(key, [&] {
    auto plan = std::make_shared<Plan>(cudnn_, what, key, choices_);
    return plan->choose(cudnn_, kept_) ? plan : nullptr;
  });
}

#endif

}  // namespace amp::cuda
