// Padding removal (unpadding, variable-length computation): a graph bound to (batch, length) inputs whose attention is
// hidden from padded tokens computes the tokens alone, one sequence behind the other: (batch, length, ..) becomes
// (1, tokens, ..), from the embeddings to the loss.
// What has no token axis, or one that a rule below does not know, stays as it was, with zeros at the padded places;
// ops/passes/padding_flow.h follows where these go. Nothing that a run reads may depend on them: for any parameters the
// graph without padding then computes the same function, and so has the same gradients. A product with a mask's 0 is 0
// only where the other factor is finite, with padding and with zeros (ops/passes/value_bounds.h). After packing
// "padding elimination" as in ONNX Runtime's training and NVIDIA's MLPerf BERT.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "ops/passes/padding_flow.h"

namespace amp {

// The input (batch, length) that says which tokens are there (1, else 0), and the masks of the graph's attention that
// hide the keys of the others and nothing else, provided that they stand behind the sequence's last token.
struct PaddingMask {
  std::string input;
  TokenPlaces places;
  std::vector<ValueId> masks;
  std::vector<ValueId> tried;  // of these: not proved from the graph, only found so for sequences of many lengths
};
std::optional<PaddingMask> find_padding_mask(const Graph& g, const Evaluator& evaluator);
// Whether the masks that were only tried do so for what the input holds now: sequences of these lengths.
bool masks_hide(const Graph& g, const PaddingMask& mask, const Evaluator& evaluator, const HostTensor& content,
                const std::vector<int64_t>& lengths);

struct Unpadded {
  Graph graph;
  std::string seen_by;  // a node by which padded places reach a loss or a running statistic; empty: none
  std::map<std::string, TokenForm> tokens;  // outputs that may hold anything at padded places
};
// ignored: labels, inputs shaped like the mask, and what they hold wherever padding is.
// Inputs of the new graph besides those that stay, int64.
//   padding.tokens (tokens): places b * length + s, each once; those behind offsets[batch] are padded places
//   padding.positions, padding.samples (tokens): s and b of these
//   padding.offsets (batch + 1): where each sequence begins, and the end;  padding.firsts (batch): without the end
// Dropout draws the bits of the same places of the padded graph. Before autodiff; only what `outputs` name is kept.
// Outputs that are no losses and no statistics may hold anything at padded places.
Unpadded remove_padding(const Graph& g, const PaddingMask& mask, int64_t tokens,
                        const std::map<std::string, int64_t>& ignored, const Evaluator& evaluator);

}  // namespace amp
