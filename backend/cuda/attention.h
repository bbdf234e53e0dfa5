// Fused attention by a library (cuDNN), if the device has one: its description, and the guard that validates the
// library's results.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "backend/cuda/device.h"
#include "backend/cuda/timed_library.h"

namespace amp::cuda {

// Distances in elements between samples, tokens and heads. A head's elements are contiguous.
struct HeadStrides {
  int64_t batch = 0, token = 0, head = 0;
};

// Describes y = softmax(scale q k^T + bias) v for every sample and head, or its gradient. Operands are those of the
// core operators FusedAttention and FusedAttentionGrad (ops/fused_attention.h). They have the same type (fp16 or bf16);
// sums are fp32.
struct Attention {
  bool backward = false;
  DType type = DType::f16;
  int64_t batch = 0, heads = 0, queries = 0, keys = 0, width = 0, value_width = 0;
  HeadStrides q, k, v, y;  // gradients have the strides of their tensors
  double scale = 1;
  Dims bias;              // (batch or 1, heads or 1, queries or 1, keys or 1), in `type`, contiguous; empty: no bias
  bool causal = false;    // query i attends to the keys up to i
  bool lengths = false;   // the operands contain the numbers of queries and keys of each sample
  double kept_scale = 0;  // dropout of the attention weights: the factor of kept weights; 0: no dropout
};

constexpr int64_t kMostKept = int64_t{1} << 30;  // maximum bytes of AttentionOperands::kept

struct AttentionOperands {
  const void *q = nullptr, *k = nullptr, *v = nullptr, *bias = nullptr;
  const int32_t *query_lengths = nullptr, *key_lengths = nullptr;  // (batch) each
  const void* kept = nullptr;  // (batch, heads, queries, keys) of `type`: 1 for weights that dropout keeps, else 0
  void* y = nullptr;           // result; written by forward, read by backward
  float* lse = nullptr;        // (batch, heads, queries), written by forward, read by backward
  // A flag in device memory; may be null. If the flag is not 0, the library's results must not be used. Either the mask
  // is not the one that Attention describes, or a row's scores are so large that the rounding of lse changes the
  // results.
  const int32_t* unfit = nullptr;
  const void* dy = nullptr;
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
};

// A planned attention: its algorithm is chosen and its workspace allocated.
class LibraryAttention : public TimedLibrary {
 public:
  virtual bool run(const AttentionOperands& o) = 0;  // returns false if the library refused
  // Returns memory for AttentionOperands::kept, which all plans share; null if the attention has no dropout.
  virtual void* kept() { return nullptr; }
};

// Registers an operator whose nodes may use the library's dropout. bytes: returns the size of AttentionOperands::kept
// for a node, or 0.
struct RegisterDropoutUser {
  RegisterDropoutUser(std::string_view op, int64_t (*bytes)(const Graph&, const Node&));
};
// Returns the largest size of AttentionOperands::kept that a node of the graph needs.
int64_t kept_bytes(const Graph& g);

// Runs an attention by the library after it has been validated and found to be faster. The first run calls `own`, the
// project's kernels, and compares the library's results for the same operands. A difference above rounding drops the
// library for the rest of the run, with a warning.
class GuardedAttention {
 public:
  GuardedAttention(CudaDevice& d, const Attention& what, std::shared_ptr<LibraryAttention> library)
      : device_(d), what_(what), library_(std::move(library)) {}
  bool dropped() const { return !library_; }
  // Returns true if the results are the library's, false if they are those of own().
  bool run(const AttentionOperands& o, const Kernel& own);

 private:
  bool run_library(const AttentionOperands& o);
  enum class Verdict { agrees, differs, proves_nothing, no_room };
  Verdict compare(const AttentionOperands& o, std::string& fact);
  Verdict compare_if_room(const AttentionOperands& o, std::string& fact);
  void drop();

  CudaDevice& device_;
  Attention what_;
  std::shared_ptr<LibraryAttention> library_;  // null after the library was dropped
  bool trusted_ = false;
};

}  // namespace amp::cuda
