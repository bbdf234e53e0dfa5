// Decides which batches are computed without padding (packing, unpadding) and builds the inputs of the graph without
// padding (ops/passes/padding.h). The decision depends only on the bucket's graph and the batch's contents, so a
// resumed run packs the same batches as an uninterrupted one.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/host_tensor.h"
#include "ops/passes/padding.h"
#include "trainer/losses/losses.h"

namespace amp {

struct Packing {
  // Number of tokens that the graph computes: the real ones, rounded up with padded positions. 0: padding is computed.
  int64_t tokens = 0;
  // Number of rows that are computed after the last attention (trainer/compile/label_rows.h). 0: all.
  int64_t rows = 0;
  int64_t chunk = 0;  // if there are rows: the number of rows that are computed together
  // The graph's inputs padding.tokens, .positions, .samples, .offsets and .firsts, and labeled.rows.
  Tensors inputs;
};

// Returns how a batch with this mask is packed. mask (batch, length): 1 for a token, 0 for padding. Empty if the mask
// contains other values, or if a sequence is empty or does not start at position 0 (padding on the left). Also empty if
// less than 5 % of the positions would be saved.
std::optional<Packing> pack_tokens(const HostTensor& mask);

// The packing plan of a bucket, which is all batches with the same shapes. It does not depend on a batch's contents.
struct PaddingPlan {
  std::shared_ptr<const Graph> graph;  // padded, before the precision plan; null unless padding can be removed
  PaddingMask mask;
  std::map<std::string, int64_t> ignored;  // labels that must have this value at padded positions
  std::string seen_by;  // description of a node that reads padded positions, if this prevents the removal of padding
  std::map<std::string, TokenForm> tokens;  // outputs whose values at padded positions are undefined
};
PaddingPlan plan_padding(std::shared_ptr<const Graph> graph, const Losses& losses, const Evaluator& evaluator);

// Returns how the batch is packed. Empty if the batch keeps its padding. This is so if pack_tokens() returned nothing,
// or if a padded position has a label. It is also so if a mask that the plan only tested on examples
// (PaddingMask::tried) does not hide exactly this batch's padding.
std::optional<Packing> packing_of(const PaddingPlan& plan, const Tensors& batch, const Evaluator& evaluator);

}  // namespace amp
