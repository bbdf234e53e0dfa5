// LoRA (Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021): y = x W + (alpha / r) x A B, with the
// model's weights W frozen. A [in, r] starts as PyTorch's kaiming_uniform_(a = sqrt(5)) does, uniform in
// +-1 / sqrt(in), from the seed and the weight's name; B [r, out] starts at zero.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"
#include "importer/write/export.h"

namespace amp {

struct LoraOptions {
  int64_t r = 8;
  double alpha = 16;
  std::vector<std::string> targets;  // globs over weight names or aliases; empty: every linear map but a new classifier
  double dropout = 0;                // on x, in the adapter only
  bool keep = false;                 // export A and B as initializers of their own; else merged into W
  uint64_t seed = 42;
  std::vector<std::string> trainable;  // globs of base weights that train all the same
};

// "r=8,alpha=16,targets=GLOB[,targets=GLOB][,dropout=P]". Exit::usage E_LORA.
LoraOptions parse_lora(const std::string& text);

struct LoraAdapter {
  int weight = -1, a = -1, b = -1;  // values of the SourceGraph
  bool transposed = false;          // the weight is stored [out, in]
  double scale = 1;                 // alpha / r
};

// Puts an adapter on every MatMul and Gemm whose weight matches and freezes all parameters but adapters, new heads and
// `trainable`. A weight that several nodes use has one adapter; one that something else reads as well (a tied
// embedding, the same weight the other way round) has none. Adds lines for people. Exit::usage E_LORA when nothing
// matches.
std::vector<LoraAdapter> add_lora(SourceGraph& g, const LoraOptions& options, std::vector<std::string>& lines);

// W + scale A B for every adapter, for export with `keep` false. trained: every parameter of the session.
std::vector<TrainedTensor> merge_lora(const SourceGraph& g, const std::vector<LoraAdapter>& adapters,
                                      std::vector<TrainedTensor> trained);

}  // namespace amp
