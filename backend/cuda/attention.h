// Fused attention by a library (cuDNN), where the device has one: what is asked of it, and the guard that its answers
// pass.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "backend/cuda/device.h"
#include "backend/cuda/timed_library.h"

namespace amp::cuda {

// Elements from one sample, token or head to the next; a head's elements lie close.
struct HeadStrides {
  int64_t batch = 0, token = 0, head = 0;
};

// y = softmax(scale q k^T + bias) v for every sample and head, or its gradient: operands as those of the core operators
// FusedAttention and FusedAttentionGrad (ops/fused_attention.h). Operands are of one type (fp16, bf16); sums are fp32.
struct Attention {
  bool backward = false;
  DType type = DType::f16;
  int64_t batch = 0, heads = 0, queries = 0, keys = 0, width = 0, value_width = 0;
  HeadStrides q, k, v, y;  // gradients lie as what they are of
  double scale = 1;
  Dims bias;              // of `type`, (batch or 1, heads or 1, queries or 1, keys or 1), rows lie close; empty: none
  bool causal = false;    // query i sees the keys up to i
  bool lengths = false;   // the operands hold the numbers of queries and keys of each sample
  double kept_scale = 0;  // dropout of the weights: the factor of those that are kept; 0: none
};

constexpr int64_t kMostKept = int64_t{1} << 30;  // bytes of AttentionOperands::kept

struct AttentionOperands {
  const void *q = nullptr, *k = nullptr, *v = nullptr, *bias = nullptr;
  const int32_t *query_lengths = nullptr, *key_lengths = nullptr;  // (batch)
  const void* kept = nullptr;  // (batch, heads, queries, keys) of `type`: 1 where dropout keeps a weight, else 0
  void* y = nullptr;           // written forward, read backward
  float* lse = nullptr;        // (batch, heads, queries): the same
  // On the device, may be null: not 0 if the library's results must not be used, because the mask is not what the
  // library was asked for, or a row's scores are so large that the rounding of lse shows in them.
  const int32_t* unfit = nullptr;
  const void* dy = nullptr;
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
};

// One attention, planned: its algorithm is chosen and its workspace allocated.
class LibraryAttention : public TimedLibrary {
 public:
  virtual bool run(const AttentionOperands& o) = 0;  // false: it refused
  // Memory for AttentionOperands::kept, shared by all plans; null unless the attention has dropout.
  virtual void* kept() { return nullptr; }
};

// Registers an operator whose nodes ask the library for dropout. bytes: of `kept`, 0: none.
struct RegisterDropoutUser {
  RegisterDropoutUser(std::string_view op, int64_t (*bytes)(const Graph&, const Node&));
};
// The most that a node of the graph needs for `kept`.
int64_t kept_bytes(const Graph& g);

// Runs an attention by the library once it has proved itself and is the faster: the first run is `own`, the project's
// kernels; the library's results for the same operands are compared with theirs, and it is dropped for good with a
// warning when they differ by more than rounding may.
class GuardedAttention {
 public:
  GuardedAttention(CudaDevice& d, const Attention& what, std::shared_ptr<LibraryAttention> library)
      : device_(d), what_(what), library_(std::move(library)) {}
  bool dropped() const { return !library_; }
  // Whether the results are the library's.
  bool run(const AttentionOperands& o, const Kernel& own);

 private:
  bool run_library(const AttentionOperands& o);
  enum class Verdict { agrees, differs, proves_nothing, no_room };
  Verdict compare(const AttentionOperands& o, std::string& fact);
  Verdict compare_if_room(const AttentionOperands& o, std::string& fact);
  void drop();

  CudaDevice& device_;
  Attention what_;
  std::shared_ptr<LibraryAttention> library_;  // null: dropped
  bool trusted_ = false;
};

}  // namespace amp::cuda
