// Convolutions by a library (cuDNN) where the device has one: their description, and the guard that validates the
// library's results.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "backend/cpu/conv/conv_shape.h"
#include "backend/cuda/device.h"

namespace amp::cuda {

enum class ConvolutionKind { forward, grad_x, grad_w };

// Describes a convolution or one of its gradients. Operands are those of the core operators (ops/conv.cc), all of the
// same type (fp32, fp16, bf16). Sums are fp32.
//   forward: a = x, b = w, c = y;   grad_x: a = dy, b = w, c = dx;   grad_w: a = x, b = dy, c = dw
struct Convolution {
  ConvolutionKind kind = ConvolutionKind::forward;
  ConvShape shape;
  DType type = DType::f32;
  std::optional<DType> bias;   // forward: type of the added bias, which has one number per output channel
  bool channels_last = false;  // operands are (N, H, W, C) and (M, H, W, C)
};

struct ConvolutionOperands {
  const void *a = nullptr, *b = nullptr, *bias = nullptr;
  void* c = nullptr;
};

// Returns a string of everything that a plan depends on, such as "forward 8 1x32>64 ..., float16".
std::string key_of(const Convolution& what);

// Returns whether the graph has nodes of operators that are registered by RegisterConvolutionUser. Their kernels use
// library convolutions.
bool uses_convolution_library(const Graph& g);
struct RegisterConvolutionUser {
  explicit RegisterConvolutionUser(std::string_view op);
};

// A planned convolution: its algorithm is chosen and its workspace allocated.
class LibraryConvolution {
 public:
  virtual ~LibraryConvolution() = default;
  virtual std::string name() const = 0;                // name for messages, such as "cuDNN"
  virtual bool run(const ConvolutionOperands& o) = 0;  // returns false if the library refused
  virtual bool may_wait() const = 0;                   // returns false while launches are recorded
  virtual std::string key() const { return {}; }       // see TimedLibrary::key()
};

// Adapts a library's weight gradient, which has the 16-bit type of its operands, to an fp32 result. The library writes
// to `rounded`, which is then widened to fp32, as PyTorch's autocast does.
class WidenedGradient final : public LibraryConvolution {
 public:
  WidenedGradient(CudaDevice& d, std::shared_ptr<LibraryConvolution> plan, Tensor rounded)
      : device_(d), plan_(std::move(plan)), rounded_(std::move(rounded)) {}
  std::string name() const override { return plan_->name(); }
  bool may_wait() const override { return plan_->may_wait(); }
  std::string key() const override { return plan_->key(); }
  bool run(const ConvolutionOperands& o) override;

 private:
  CudaDevice& device_;
  std::shared_ptr<LibraryConvolution> plan_;
  Tensor rounded_;
};

// Runs a convolution by the library after the library has been validated. The first run calls `own`, the project's
// kernels, and compares the library's result for the same operands. A difference above rounding drops the library for
// the rest of the run, with a warning.
class GuardedConvolution {
 public:
  // result: type and dims of the convolution's output.
  GuardedConvolution(CudaDevice& d, const Convolution& what, std::shared_ptr<LibraryConvolution> library, Tensor result)
      : device_(d), what_(what), library_(std::move(library)), result_(std::move(result)) {}
  void run(const ConvolutionOperands& o, const Kernel& own);

 private:
  bool proved(const ConvolutionOperands& o);

  CudaDevice& device_;
  Convolution what_;
  std::shared_ptr<LibraryConvolution> library_;  // null after it was dropped
  Tensor result_;                                // type and dims only
  bool trusted_ = false;
};

}  // namespace amp::cuda
