// The real CUDA device, and the plugin's one exported function. All work is enqueued on one stream; steps are recorded
// as CUDA graphs and replayed. Libraries (cuBLASLt, cuDNN, NVRTC) can be switched off by PluginOptions; the project's
// kernels then replace them.
#include <cuda_profiler_api.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>

#include "backend/cuda/attention.h"
#include "backend/cuda/convolution.h"
#include "backend/cuda/graph_capture.h"
#include "backend/cuda/plain_product.h"
#include "backend/cuda/runtime/compiler.h"
#include "backend/cuda/runtime/cudnn.h"
#include "backend/cuda/runtime/cudnn_attention.h"
#include "backend/cuda/runtime/cudnn_convolution.h"
#include "backend/cuda/runtime/memory.h"
#include "backend/cuda/runtime/products.h"
#include "backend/cuda/runtime/timing.h"
#include "backend/plugin.h"
#include "base/error.h"
#include "base/sysinfo.h"

namespace amp::cuda {

namespace {

[[noreturn]] void unavailable(const std::string& why) {
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  const auto version = [](int v) { return v == 0 ? std::string("none") : cat(v / 1000, '.', v % 1000 / 10); };
  fail(Exit::usage, "E_DEVICE_UNAVAILABLE",
       cat("no usable CUDA device: ", why, " (the driver supports CUDA ", version(driver),
           ", this program was built for ", version(runtime), ")"),
       "use `device` cpu, or `device` auto to take a GPU when there is one");
}

// Returns the number of the step that a profiler records, counted from 1 (ONNX_AMP_CUDA_PROFILE_STEP); -1: none.
int64_t profiled_step() {
  const char* step = std::getenv("ONNX_AMP_CUDA_PROFILE_STEP");
  return step && *step ? std::max<int64_t>(std::strtoll(step, nullptr, 10), 1) : -1;
}

class GraphRecording final : public Recording {
 public:
  // Takes ownership of the graph if it can be instantiated.
  GraphRecording(cudaStream_t stream, cudaGraph_t graph) : stream_(stream), graph_(graph) {
    ensure(cudaGraphInstantiate(&executable_, graph_, 0), "instantiating a CUDA graph");
  }
  ~GraphRecording() override {
    cudaGraphExecDestroy(executable_);
    cudaGraphDestroy(graph_);
  }
  void replay() override { ensure(cudaGraphLaunch(executable_, stream_), "launching a CUDA graph"); }

 private:
  cudaStream_t stream_;
  cudaGraph_t graph_;
  cudaGraphExec_t executable_ = nullptr;
};

class StreamCapture final : public GraphCapture {
 public:
  explicit StreamCapture(cudaStream_t stream) : stream_(stream) {}
  ~StreamCapture() override {
    if (graph_) cudaGraphDestroy(graph_);
  }
  void begin() override {
    ensure(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "recording a CUDA graph");
  }
  std::unique_ptr<Recording> finish() override {
    ensure(cudaStreamEndCapture(stream_, &graph_), "recording a CUDA graph");
    auto recording = std::make_unique<GraphRecording>(stream_, graph_);
    graph_ = nullptr;  // now owned by the recording
    return recording;
  }
  void abandon() override {
    if (is_capturing(stream_)) cudaStreamEndCapture(stream_, &graph_);
    cudaGetLastError();
  }

 private:
  cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
};

class RealDevice final : public CudaDevice {
 public:
  RealDevice(int ordinal, const PluginOptions& options)
      : ordinal_(ordinal), graphs_(options.graphs), tf32_(options.tf32) {
    const cudaError_t status = cudaSetDevice(ordinal);
    if (status != cudaSuccess) unavailable(cudaGetErrorString(status));
    ensure(cudaGetDeviceProperties(&properties_, ordinal), "reading the device's properties");
    if (properties_.major < 8)
      unavailable(cat(properties_.name, " has compute capability ", properties_.major, '.', properties_.minor,
                      ", at least 8.0 is needed"));
    ensure(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
    const int64_t before = memory().free;
    uploader_ = std::make_unique<Uploader>(stream_);
    flag_read_ = allocate_shared(8);
    open_libraries(options);
    opened_ = std::max<int64_t>(0, before - memory().free);
  }
  ~RealDevice() override {
    cudaStreamSynchronize(stream_);
    for (cudaEvent_t mark : marks_) cudaEventDestroy(mark);
    compiler_.reset();
    attention_.reset();
    convolutions_.reset();
    cudnn_.reset();
    products_.reset();
    uploader_.reset();
    cudaStreamDestroy(stream_);
  }

  DeviceTraits traits() const override {
    DeviceTraits t = CudaDevice::traits();
    t.chains_fp32 = tf32_;
    return t;
  }
  std::string description() const override {
    int driver = 0;
    cudaDriverGetVersion(&driver);
    return cat(properties_.name, ", ", properties_.totalGlobalMem >> 20, " MiB, compute capability ", properties_.major,
               '.', properties_.minor, ", CUDA ", driver / 1000, '.', driver % 1000 / 10,
               Cudnn::headers().empty() ? ", without attention and convolutions by cuDNN" : "");
  }
  DeviceMemory allocate(int64_t bytes) override { return allocate_device(bytes, stream_, use_); }
  DeviceMemory allocate_shared(int64_t bytes) override {
    void* p = nullptr;
    ensure(cudaHostAlloc(&p, static_cast<size_t>(bytes), cudaHostAllocMapped | cudaHostAllocPortable),
           "allocating pinned memory");
    std::memset(p, 0, static_cast<size_t>(bytes));
    return DeviceMemory(p, [](void* q) { cudaFreeHost(q); });
  }
  std::unique_ptr<Arena> make_arena() override { return make_device_arena(ordinal_, use_); }
  int64_t memory_in_use() const override { return use_->now(); }

  void upload(void* to, const void* host, int64_t bytes) override { uploader_->upload(to, host, bytes); }
  void download(void* host, const void* from, int64_t bytes) override {
    if (bytes <= 0) return;
    ensure(cudaMemcpyAsync(host, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, stream_), "downloading");
    if (!raised()) return synchronize();
    ensure(cudaMemcpyAsync(flag_read_.get(), raised(), 8, cudaMemcpyDeviceToHost, stream_), "downloading");
    synchronize();
    check_index_flag(*static_cast<const int64_t*>(flag_read_.get()));
  }
  void synchronize() override { ensure(cudaStreamSynchronize(stream_), "running on the GPU"); }
  void pace(int ahead) override {
    if (profiled_step_ >= 0) {
      const int64_t done = ++steps_;
      if (done == profiled_step_ || done == profiled_step_ + 1) synchronize();
      if (done == profiled_step_) cudaProfilerStart();
      if (done == profiled_step_ + 1) cudaProfilerStop();
    }
    cudaEvent_t mark = nullptr;
    if (marks_.size() >= static_cast<size_t>(ahead)) {
      mark = marks_.front();
      marks_.pop_front();
      ensure(cudaEventSynchronize(mark), "running on the GPU");
    } else {
      ensure(cudaEventCreateWithFlags(&mark, cudaEventDisableTiming), "creating an event");
    }
    marks_.push_back(mark);
    ensure(cudaEventRecord(mark, stream_), "recording an event");
  }
  void copy(void* to, const void* from, int64_t bytes) override {
    if (bytes > 0)
      ensure(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, stream_), "copying");
  }
  void fill(void* to, uint8_t byte, int64_t bytes) override {
    if (bytes > 0) ensure(cudaMemsetAsync(to, byte, static_cast<size_t>(bytes), stream_), "filling");
  }

  std::unique_ptr<Recording> record(const std::function<void()>& work) override {
    if (!graphs_) return nullptr;
    StreamCapture capture(stream_);
    std::unique_ptr<Recording> recording = record_if_possible(capture, work);
    if (!recording) graphs_ = false;  // earlier recordings stay valid; no further recordings are tried
    return recording;
  }

  PluginMemory memory() const {
    size_t free = 0, total = 0;
    ensure(cudaMemGetInfo(&free, &total), "reading the device's free memory");
    return {static_cast<int64_t>(total), static_cast<int64_t>(free), opened_, use_->peak()};
  }

  void* stream() const override { return stream_; }
  int multiprocessors() const override { return properties_.multiProcessorCount; }
  std::function<void(const void*, const void*, void*)> gemm(const Gemm& g) override {
    return products_ ? products_->prepare(g) : plain_product(*this, g);
  }
  std::shared_ptr<LibraryProduct> product(const EpilogueProduct& p) override {
    return products_ ? products_->prepare(p) : nullptr;
  }
  GeneratedKernel compile(const GeneratedSource& s) override { return compiler_ ? compiler_->compile(s) : nullptr; }
  std::shared_ptr<LibraryConvolution> convolution(const Convolution& c) override {
    return convolutions_ ? convolutions_->plan(c) : nullptr;
  }
  std::shared_ptr<LibraryAttention> attention(const Attention& a) override {
    return attention_ ? attention_->plan(a) : nullptr;
  }
  void launched(const char* kernel, int64_t, int) override { ensure(cudaGetLastError(), kernel); }

 private:
  // Opens the libraries. The member of a library that is switched off stays null. cuDNN and NVRTC are then not loaded.
  void open_libraries(const PluginOptions& options) {
    const std::string gpu = properties_.name;
    if (options.libraries.cublaslt) products_ = std::make_unique<Products>(stream_, gpu, options.tf32);
    if (options.libraries.cudnn) {
      cudnn_ = std::make_unique<Cudnn>(*this);
      convolutions_ = std::make_unique<CudnnConvolution>(*cudnn_, options.tf32);
      attention_ = std::make_unique<CudnnAttention>(*cudnn_, gpu);
    }
    if (options.libraries.nvrtc)
      compiler_ =
          std::make_unique<Compiler>(stream_, cat("sm_", properties_.major, properties_.minor), cache_path("kernels"));
  }

  int ordinal_;
  bool graphs_, tf32_;
  cudaDeviceProp properties_{};
  cudaStream_t stream_ = nullptr;
  std::shared_ptr<MemoryUse> use_ = std::make_shared<MemoryUse>();
  int64_t opened_ = 0;
  int64_t steps_ = 0, profiled_step_ = profiled_step();
  std::deque<cudaEvent_t> marks_;  // one event after each of the last steps
  DeviceMemory flag_read_;         // pinned memory into which download() reads the index flag
  std::unique_ptr<Uploader> uploader_;
  std::unique_ptr<Products> products_;
  std::unique_ptr<Cudnn> cudnn_;
  std::unique_ptr<CudnnConvolution> convolutions_;
  std::unique_ptr<CudnnAttention> attention_;
  std::unique_ptr<Compiler> compiler_;
};

Device* open(const PluginOptions& options) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) unavailable(cudaGetErrorString(status));
  if (count == 0) unavailable("the driver reports none");
  if (options.ordinal < 0 || options.ordinal >= count)
    unavailable(cat("there is no device ", options.ordinal, ", the driver reports ", count));
  return new RealDevice(options.ordinal, options);
}

PluginMemory memory(const Device& device) { return static_cast<const RealDevice&>(device).memory(); }
// Returns an estimate of the device memory that is allocated outside of the memory plan. It is the sum of 64 MiB for
// CUDA graphs and for kernels that CUDA loads at their first launch, cuDNN's workspace for convolutions, and dropout
// masks for cuDNN's attention. The workspace counts twice, because older plans keep the smaller buffer that they were
// made with.
int64_t library_bytes(const Graph& g) {
  return (int64_t{64} << 20) + (uses_convolution_library(g) ? 2 * CudnnConvolution::kMostWorkspace : 0) + kept_bytes(g);
}

bool has_kernel(const char* op) { return find_kernel(DeviceKind::cuda, op) != nullptr; }

}  // namespace
}  // namespace amp::cuda

extern "C" __attribute__((visibility("default"))) const amp::PluginApi* onnx_amp_cuda_plugin() {
  static const amp::PluginApi api{amp::kPluginAbi, amp::cuda::open, amp::cuda::has_kernel, amp::cuda::memory,
                                  amp::cuda::library_bytes};
  return &api;
}
