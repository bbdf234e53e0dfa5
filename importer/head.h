// Heads: what turns a model without a classifier into one. The choice is made by rule, shown, and can be overridden.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"

namespace amp {

struct HeadOptions {
  std::string from;              // --head_from: a value's name; empty: by rule
  std::string pooling = "auto";  // auto, cls, mean: how hidden states [B, S, H] become [B, H]
  int64_t num_labels = 0;
  double dropout = 0.1;
  uint64_t seed = 42;  // of the weights: normal, standard deviation 0.02
  // Shapes of float values for a batch of 2 rows (3 tokens), by source value; empty where not computed.
  std::vector<Dims> probe;
};

struct HeadChoice {
  bool needed = false;    // false: the model classifies already
  int source_value = -1;  // what the head reads, or the model's own logits
  std::string pooling;    // "none" for [B, H], else cls or mean
  std::string reason;     // for people
};

// Rule: an output called logits, or a sole [B, num_labels] output, is the classifier. Else, of the float outputs that
// depend on parameters, the last [B, H]; else the last [B, S, H] with pooling. Exit::unsupported (E_HEAD) when nothing
// fits.
HeadChoice choose_head(const SourceGraph& graph, const HeadOptions& options);

// Appends pooling, Dropout, Gemm (weight [num_labels, H], bias) and the graph output "logits"; returns the output's
// name.
std::string attach_head(SourceGraph& graph, const HeadChoice& choice, const HeadOptions& options);

}  // namespace amp
