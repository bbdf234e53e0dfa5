// LoRA (Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021): y = x W + (alpha / r) x A B, with the
// model's weights W frozen. A [in, r] is initialized like PyTorch's kaiming_uniform_(a = sqrt(5)): uniform in +-1 /
// sqrt(in), from the seed and the weight's name. B [r, out] starts at zero.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"
#include "importer/write/export.h"

namespace amp {

struct LoraOptions {
  int64_t r = 8;
  double alpha = 16;
  // globs for weight names or aliases; empty: every linear map except a new classifier
  std::vector<std::string> targets;
  double dropout = 0;  // on x, in the adapter only
  bool keep = false;   // export A and B as separate initializers; otherwise merge them into W
  uint64_t seed = 42;
  std::vector<std::string> trainable;  // globs of base weights that are trained in addition
};

// Parses "r=8,alpha=16,targets=GLOB[,targets=GLOB][,dropout=P]". Throws E_LORA (Exit::usage) for other texts.
LoraOptions parse_lora(const std::string& text);

struct LoraAdapter {
  int weight = -1, a = -1, b = -1;  // indices of values of the SourceGraph
  bool transposed = false;          // the weight is stored [out, in]
  double scale = 1;                 // alpha / r
};

// Adds an adapter to every MatMul and Gemm whose weight matches `targets`. Freezes all parameters except adapters, new
// heads and `trainable`. A weight that several nodes use has one adapter. A weight gets no adapter if other kinds of
// nodes read it as well (a tied embedding) or if it is also used transposed. Adds messages for the user to `lines`.
// Throws E_LORA (Exit::usage) if nothing matches.
std::vector<LoraAdapter> add_lora(SourceGraph& g, const LoraOptions& options, std::vector<std::string>& lines);

// Returns `trained` with W + scale A B as the value of each adapted weight, for export with `keep` false. trained: all
// parameters of the session.
std::vector<TrainedTensor> merge_lora(const SourceGraph& g, const std::vector<LoraAdapter>& adapters,
                                      std::vector<TrainedTensor> trained);

}  // namespace amp
