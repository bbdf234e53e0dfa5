// Padding removal (unpadding, variable-length computation). In a graph with (batch, length) inputs whose attention
// masks padded tokens, only real tokens are computed, as one sequence after the other: (batch, length, ..) becomes
// (1, tokens, ..), from the embeddings to the loss. Values without a token axis, and values whose operator no rule
// covers, stay padded, with zeros at padded positions. ops/passes/padding_flow.h tracks these zeros and shows that
// no result depends on them. Then the unpadded graph computes the same function for any parameters, with the same
// gradients. A product with a mask's 0 is 0 only if the other factor is finite, with the original padding and with
// zeros (ops/passes/value_bounds.h). Modeled on "padding elimination" in ONNX Runtime's training and NVIDIA's
// MLPerf BERT.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "ops/passes/padding_flow.h"

namespace amp {

// The input (batch, length) that marks tokens (1, otherwise 0), and the attention masks that hide exactly the keys
// of padding, provided that padding is after the sequence's last token.
struct PaddingMask {
  std::string input;
  TokenPlaces places;
  std::vector<ValueId> masks;
  std::vector<ValueId> tried;  // masks that were only checked for sequences of many lengths, not proved
};
std::optional<PaddingMask> find_padding_mask(const Graph& g, const Evaluator& evaluator);
// Returns whether the masks in PaddingMask::tried are correct for the current content of the input, which holds
// sequences of these lengths.
bool masks_hide(const Graph& g, const PaddingMask& mask, const Evaluator& evaluator, const HostTensor& content,
                const std::vector<int64_t>& lengths);

struct Unpadded {
  Graph graph;
  std::string seen_by;  // a node through which padding reaches a loss or a running statistic; empty: none
  std::map<std::string, TokenForm> tokens;  // outputs whose values at padded positions are undefined
};
// Returns the unpadded graph. ignored: labels (inputs shaped like the mask) and their value at padded positions.
// The new graph has additional int64 inputs:
//   padding.tokens (tokens): positions b * length + s, each once; those from offsets[batch] on are padding
//   padding.positions, padding.samples (tokens): the s and the b of each of these positions
//   padding.offsets (batch + 1): start of each sequence, then the last end;  padding.firsts (batch): the starts only
// Dropout uses the random bits of the same positions in the padded graph. Call before autodiff; only the values in
// `outputs` are kept. Outputs that are neither losses nor statistics are undefined at padded positions.
Unpadded remove_padding(const Graph& g, const PaddingMask& mask, int64_t tokens,
                        const std::map<std::string, int64_t>& ignored, const Evaluator& evaluator);

}  // namespace amp
