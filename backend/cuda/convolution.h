// Convolutions by a library (cuDNN), where the device has one: what is asked of it, and the guard that its answers
// pass.
#pragma once

#include <functional>
#include <memory>

#include "backend/cpu/conv_shape.h"
#include "backend/cuda/device.h"

namespace amp::cuda {

enum class ConvolutionKind { forward, grad_x, grad_w };

// Operands as those of the core operators (ops/conv.cc), all of one type (fp32, fp16, bf16); sums are fp32.
//   forward: a = x, b = w, c = y;   grad_x: a = dy, b = w, c = dx;   grad_w: a = x, b = dy, c = dw
struct Convolution {
  ConvolutionKind kind = ConvolutionKind::forward;
  ConvShape shape;
  DType type = DType::f32;
  bool accumulate = false;     // c += instead of c =
  bool channels_last = false;  // operands are (N, H, W, C) and (M, H, W, C)
};

// Whether a graph has nodes whose kernels ask the device for a convolution, as operators say that do.
bool uses_convolution_library(const Graph& g);
struct RegisterConvolutionUser {
  explicit RegisterConvolutionUser(std::string_view op);
};

// One convolution, planned: its algorithm is chosen and its workspace allocated.
class LibraryConvolution {
 public:
  virtual ~LibraryConvolution() = default;
  virtual std::string name() const = 0;                         // "cuDNN", for messages
  virtual bool run(const void* a, const void* b, void* c) = 0;  // false: it refused
  virtual bool may_wait() const = 0;                            // false while launches are recorded
  virtual std::string key() const { return {}; }                // as TimedLibrary's
};

// Runs a convolution by the library once it has proved itself: the first run is `own`, the project's kernels; the
// library's result for the same operands is compared with theirs, and it is dropped for good with a warning when they
// differ by more than rounding may. c: `elements` of c; initialise: what must be in c before either runs (a bias), may
// be empty.
class GuardedConvolution {
 public:
  GuardedConvolution(CudaDevice& d, const Convolution& what, std::shared_ptr<LibraryConvolution> library,
                     int64_t elements)
      : device_(d), what_(what), library_(std::move(library)), elements_(elements) {}
  void run(const void* a, const void* b, void* c, const Kernel& own, const std::function<void(void*)>& initialise);

 private:
  bool proved(const void* a, const void* b, const void* c, const std::function<void(void*)>& initialise);

  CudaDevice& device_;
  Convolution what_;
  std::shared_ptr<LibraryConvolution> library_;  // null: dropped
  int64_t elements_;
  bool trusted_ = false;
};

}  // namespace amp::cuda
