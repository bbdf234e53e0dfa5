// Padding removal: a graph bound to (batch, length) inputs whose attention is hidden from padded tokens computes the
// tokens alone, one sequence behind the other: (batch, length, ..) becomes (1, tokens, ..), from the embeddings to the
// loss.
// What has no token axis, or one that a rule below does not know, stays as it was, with zeros at the padded places.
// After packing "padding elimination" as in ONNX Runtime's training and NVIDIA's MLPerf BERT.
#pragma once

#include <optional>
#include <string>

#include "graph/builder.h"

namespace amp {

// The input (batch, length) that says which tokens are there (not 0), by which every masked attention of the graph
// hides the keys of the others and nothing else, provided that they stand behind the sequence's last token.
struct PaddingMask {
  std::string input;
  int64_t batch = 0, length = 0;
  std::vector<ValueId> masks;  // of the graph, which the proof covers
};

// Proved by evaluating the masks for sequences of many lengths.
std::optional<PaddingMask> find_padding_mask(const Graph& g, const Evaluator& evaluator);

// Inputs of the new graph besides those that stay, int64.
//   padding.tokens (tokens): places b * length + s, each once; those behind offsets[batch] are padded places
//   padding.positions, padding.samples (tokens): s and b of these
//   padding.offsets (batch + 1): where each sequence begins, and the end;  padding.firsts (batch): without the end
// Dropout draws the bits of the same places of the padded graph. Before autodiff; only what `outputs` name is kept.
Graph remove_padding(const Graph& g, const PaddingMask& mask, int64_t tokens, const Evaluator& evaluator);

}  // namespace amp
