#include "backend/cuda/runtime/cudnn.h"

#include <cuda_runtime.h>
#include <cudnn.h>

#include <algorithm>
#include <iostream>
#include <vector>

#include "backend/cuda/runtime/cudnn_descriptor.h"
#include "backend/cuda/runtime/memory.h"
#include "backend/cuda/runtime/timing.h"
#include "backend/memory_phase.h"

namespace amp::cuda {

struct Cudnn::Handle {
  cudnnHandle_t value = nullptr;
  ~Handle() {
    if (value) cudnnDestroy(value);
  }
};

namespace {

constexpr size_t kWorkspace = Cudnn::kMostWorkspace;

using FilterDescriptor = Descriptor<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor>;
using WindowDescriptor =
    Descriptor<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor>;

class Plan final : public LibraryConvolution {
 public:
  // last: the operands' channels lie last.
  Plan(cudnnHandle_t handle, std::shared_ptr<void> owner, cudaStream_t stream, const Convolution& what, bool last)
      : handle_(handle), owner_(std::move(owner)), stream_(stream), what_(what), last_(last) {}

  // Takes the library's choice number `rank` among those that will do. False: there are no more. Sets the workspace
  // that run() wants.
  bool choose(bool tf32, int rank) { return describe(tf32) && find(tf32, rank); }
  size_t workspace_bytes() const { return bytes_; }
  void use(DeviceMemory workspace) { workspace_ = std::move(workspace); }

  std::string name() const override { return "cuDNN"; }
  bool may_wait() const override { return !is_capturing(stream_); }
  bool run(const void* a, const void* b, void* c) override {
    const float alpha = 1, beta = what_.accumulate ? 1 : 0;
    void* const scratch = workspace_.get();
    switch (what_.kind) {
      case ConvolutionKind::forward:
        return good(cudnnConvolutionForward(handle_, &alpha, x_, a, w_, b, window_,
                                            static_cast<cudnnConvolutionFwdAlgo_t>(algorithm_), scratch, bytes_, &beta,
                                            y_, c));
      case ConvolutionKind::grad_x:
        return good(cudnnConvolutionBackwardData(handle_, &alpha, w_, b, y_, a, window_,
                                                 static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm_), scratch,
                                                 bytes_, &beta, x_, c));
      case ConvolutionKind::grad_w:
        return good(cudnnConvolutionBackwardFilter(handle_, &alpha, x_, a, y_, b, window_,
                                                   static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm_), scratch,
                                                   bytes_, &beta, w_, c));
    }
    return false;
  }

 private:
  bool describe(bool tf32) {
    const ConvShape& s = what_.shape;
    const cudnnDataType_t type = what_.type == DType::f16    ? CUDNN_DATA_HALF
                                 : what_.type == DType::bf16 ? CUDNN_DATA_BFLOAT16
                                                             : CUDNN_DATA_FLOAT;
    const WindowAxis& depth = s.window[0];
    const size_t skip = depth.in == 1 && depth.out == 1 && depth.kernel == 1 && depth.pad == 0 ? 1 : 0;
    std::vector<int> x{static_cast<int>(s.n), static_cast<int>(s.groups * s.c)},
        y{static_cast<int>(s.n), static_cast<int>(s.groups * s.m)};
    std::vector<int> w{static_cast<int>(s.groups * s.m), static_cast<int>(s.c)}, pads, strides, dilations;
    for (size_t i = skip; i < 3; ++i) {
      const WindowAxis& a = s.window[i];
      x.push_back(static_cast<int>(a.in));
      y.push_back(static_cast<int>(a.out));
      w.push_back(static_cast<int>(a.kernel));
      pads.push_back(static_cast<int>(a.pad));
      strides.push_back(static_cast<int>(a.stride));
      dilations.push_back(static_cast<int>(a.dilation));
    }
    constexpr int64_t kLimit = (int64_t{1} << 31) - 1;
    if (s.n * s.groups * s.c * s.in_size() > kLimit || s.n * s.groups * s.m * s.out_size() > kLimit ||
        s.groups * s.m * s.c * s.taps() > kLimit)
      return false;
    const int rank = static_cast<int>(x.size());
    if (last_ && rank != 4) return false;
    const auto tensor = [&](const TensorDescriptor& d, const std::vector<int>& dims) {
      std::vector<int> step(dims.size(), 1);
      for (size_t i = dims.size() - 1; i > 0; --i) step[i - 1] = step[i] * dims[i];
      if (last_) step = {dims[1] * dims[2] * dims[3], 1, dims[1] * dims[3], dims[1]};
      return good(cudnnSetTensorNdDescriptor(d, type, rank, dims.data(), step.data()));
    };
    const cudnnMathType_t math = what_.type != DType::f32 ? CUDNN_TENSOR_OP_MATH
                                 : tf32                   ? CUDNN_DEFAULT_MATH
                                                          : CUDNN_FMA_MATH;
    if (!tensor(x_, x) || !tensor(y_, y) ||
        !good(cudnnSetFilterNdDescriptor(w_, type, last_ ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW, rank, w.data())) ||
        !good(cudnnSetConvolutionNdDescriptor(window_, rank - 2, pads.data(), strides.data(), dilations.data(),
                                              CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT)) ||
        !good(cudnnSetConvolutionGroupCount(window_, static_cast<int>(s.groups))) ||
        !good(cudnnSetConvolutionMathType(window_, math))) {
      return false;
    }
    std::vector<int> out(y.size());  // with the first pad at both ends
    return good(cudnnGetConvolutionNdForwardOutputDim(window_, x_, w_, rank, out.data())) && out == y;
  }

  // Those that are deterministic, keep to the precision asked for and fit the workspace, the likely fastest first.
  template <class Perf, class Size>
  bool pick(const std::vector<Perf>& found, int n, bool tf32, int rank, Size size) {
    for (int i = 0; i < n; ++i) {
      const Perf& p = found[static_cast<size_t>(i)];
      if (!good(p.status) || p.determinism != CUDNN_DETERMINISTIC) continue;
      const bool plain = what_.type == DType::f32 && !tf32;
      if (plain && (p.mathType == CUDNN_TENSOR_OP_MATH || p.mathType == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION))
        continue;
      if (!good(cudnnSetConvolutionMathType(window_, plain ? CUDNN_FMA_MATH : p.mathType))) continue;
      if (!good(size(p.algo, &bytes_)) || bytes_ > kWorkspace) continue;
      if (rank-- > 0) continue;
      algorithm_ = static_cast<int>(p.algo);
      return true;
    }
    return false;
  }
  bool find(bool tf32, int rank) {
    int n = 0;
    switch (what_.kind) {
      case ConvolutionKind::forward: {
        std::vector<cudnnConvolutionFwdAlgoPerf_t> found(CUDNN_CONVOLUTION_FWD_ALGO_COUNT);
        return good(cudnnGetConvolutionForwardAlgorithm_v7(handle_, x_, w_, window_, y_, static_cast<int>(found.size()),
                                                           &n, found.data())) &&
               pick(found, n, tf32, rank, [&](auto algo, size_t* bytes) {
                 return cudnnGetConvolutionForwardWorkspaceSize(handle_, x_, w_, window_, y_, algo, bytes);
               });
      }
      case ConvolutionKind::grad_x: {
        std::vector<cudnnConvolutionBwdDataAlgoPerf_t> found(CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT);
        return good(cudnnGetConvolutionBackwardDataAlgorithm_v7(handle_, w_, y_, window_, x_,
                                                                static_cast<int>(found.size()), &n, found.data())) &&
               pick(found, n, tf32, rank, [&](auto algo, size_t* bytes) {
                 return cudnnGetConvolutionBackwardDataWorkspaceSize(handle_, w_, y_, window_, x_, algo, bytes);
               });
      }
      case ConvolutionKind::grad_w: {
        std::vector<cudnnConvolutionBwdFilterAlgoPerf_t> found(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT);
        return good(cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle_, x_, y_, window_, w_,
                                                                  static_cast<int>(found.size()), &n, found.data())) &&
               pick(found, n, tf32, rank, [&](auto algo, size_t* bytes) {
                 return cudnnGetConvolutionBackwardFilterWorkspaceSize(handle_, x_, y_, window_, w_, algo, bytes);
               });
      }
    }
    return false;
  }

  cudnnHandle_t handle_;
  std::shared_ptr<void> owner_;  // of the handle
  cudaStream_t stream_;
  Convolution what_;
  bool last_;
  TensorDescriptor x_, y_;
  FilterDescriptor w_;
  WindowDescriptor window_;
  int algorithm_ = 0;
  size_t bytes_ = 0;
  DeviceMemory workspace_;
};

}  // namespace

// Work on the stream is ordered, so that all plans can share one buffer; plans made before it grew, and what was
// recorded with them, keep the one they know.
DeviceMemory Cudnn::Buffer::at_least(CudaDevice& device, int64_t bytes) {
  if (bytes > bytes_) {
    const int64_t size = std::max(bytes, std::min(2 * bytes_, kMostWorkspace));
    memory_ = in_phase("cuDNN's workspace", [&] { return device.allocate(size); });
    bytes_ = size;
  }
  return memory_;
}

// The first choices of the library for one layout.
void Cudnn::add_plans(const Convolution& what, bool last, std::vector<TimedChoice::Candidate>& to) {
  for (int rank = 0; rank < kTried; ++rank) {
    const auto plan =
        std::make_shared<Plan>(handle_->value, handle_, static_cast<cudaStream_t>(device_.stream()), what, last);
    if (!plan->choose(tf32_, rank)) return;
    if (plan->workspace_bytes() > 0)
      plan->use(workspace_.at_least(device_, static_cast<int64_t>(plan->workspace_bytes())));
    std::shared_ptr<LibraryConvolution> usable = plan;
    if (last && !what.channels_last) {
      const int64_t bytes = ChannelsLast::scratch_bytes(what);
      usable = std::make_shared<ChannelsLast>(device_, what, plan,
                                              bytes > 0 ? layout_.at_least(device_, bytes) : DeviceMemory());
    }
    to.push_back({cat(last ? "NHWC " : "NCHW ", rank), std::move(usable)});
  }
}

Cudnn::Cudnn(CudaDevice& device, const std::string& gpu, bool tf32)
    : device_(device),
      tf32_(tf32),
      choices_(cat("convolutions-", gpu, '-', cudnnGetVersion(), tf32 ? "-tf32" : "", ".txt")) {}

bool Cudnn::open() {
  if (tried_) return handle_ != nullptr;
  tried_ = true;
  auto handle = std::make_shared<Handle>();
  const cudnnStatus_t status = cudnnCreate(&handle->value);
  if (!good(status)) handle->value = nullptr;
  if (good(status) && good(cudnnSetStream(handle->value, static_cast<cudaStream_t>(device_.stream()))))
    handle_ = std::move(handle);
  else
    std::cerr << "warning: W_LIBRARY: cuDNN does not open (" << cudnnGetErrorString(status)
              << "); the built-in kernels are used instead\n";
  return handle_ != nullptr;
}

std::shared_ptr<void> Cudnn::handle() const { return handle_; }
cudnnContext* Cudnn::raw() const { return handle_ ? handle_->value : nullptr; }

std::shared_ptr<LibraryConvolution> Cudnn::plan(const Convolution& what) {
  if (!open()) return nullptr;
  const auto stream = static_cast<cudaStream_t>(device_.stream());
  std::vector<TimedChoice::Candidate> plans;
  add_plans(what, what.channels_last, plans);
  // With channels last tensor cores are fed as they like it; the moves there and back are part of what is timed.
  const bool cores = what.type != DType::f32 || tf32_;
  if (!what.channels_last && cores && ChannelsLast::scratch_bytes(what) <= kMostWorkspace) {
    try {
      add_plans(what, true, plans);
    } catch (const Error& e) {
      if (e.id() != "E_OOM") throw;  // then without
    }
  }
  if (plans.empty()) return nullptr;
  const ConvShape& s = what.shape;
  const int64_t elements = what.kind == ConvolutionKind::forward  ? s.n * s.groups * s.m * s.out_size()
                           : what.kind == ConvolutionKind::grad_x ? s.n * s.groups * s.c * s.in_size()
                                                                  : s.groups * s.m * s.c * s.taps();
  return std::make_shared<TimedChoice>(
      device_, what, elements, std::move(plans), choices_,
      [stream](const std::function<void()>& work) { return milliseconds(stream, work); });
}

}  // namespace amp::cuda
