// Helpers of the attention operators: softmax(softcap(alpha Q K^T) + mask) V, composed of core operators. Tensors
// have the dims (B, H, S, D): batch, heads, positions, head width. Operators: attention.cc (ONNX 23),
// attention_contrib.cc and group_query.cc (com.microsoft).
#pragma once

#include "graph/lower.h"

namespace amp {

// Convert (B, S, H * D) to (B, H, S, D) and back.
ValueId split_heads(Builder& b, ValueId x, int64_t heads);
ValueId merge_heads(Builder& b, ValueId x);
// Repeats every key/value head `times` times, for as many consecutive query heads.
ValueId repeat_heads(Builder& b, ValueId x, int64_t times);

// Returns a mask (queries, keys): 0 where query i attends to key j, `masked` elsewhere. Query i attends to keys
// j <= past + i and, if window > 0, only to j > past + i - window.
ValueId causal_mask(Builder& b, int64_t queries, int64_t keys, int64_t past, double masked, DType t,
                    int64_t window = 0);
// Converts a boolean mask (true: visible) to an additive one.
ValueId additive(Builder& b, ValueId keep, double masked, DType t);
// Returns a mask (B, 1, 1, keys) that masks the keys from position lens[b] on; lens is (B).
ValueId length_mask(Builder& b, ValueId lens, int64_t keys, double masked, DType t);

struct Attended {
  ValueId y, scores, capped, masked, weights;
};
// Returns attention. masks: added to the scores, with broadcasting. sink: (heads) logits that take part in the softmax
// without a value, or invalid. empty_rows_zero: a query with only -inf scores gives 0 instead of NaN. In training,
// dropout is applied to probabilities (attributes training_dropout and site, which importer/surgery/dropout.h sets).
Attended attend(const Lowering& l, ValueId q, ValueId k, ValueId v, double scale, double softcap,
                const std::vector<ValueId>& masks, ValueId sink = {}, bool empty_rows_zero = false);

}  // namespace amp
