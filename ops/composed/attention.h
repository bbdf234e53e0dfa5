// Helpers of the attention operators: softmax(softcap(alpha Q K^T) + mask) V, composed of core operators. Heads are
// dimension 1 of 4: (B, H, S, D). ops/composed/attention.cc: ONNX 23 and the helpers; attention_contrib.cc,
// group_query.cc: com.microsoft.
#pragma once

#include "graph/lower.h"

namespace amp {

// (B, S, H D) -> (B, H, S, D) and back.
ValueId split_heads(Builder& b, ValueId x, int64_t heads);
ValueId merge_heads(Builder& b, ValueId x);
// Repeats every key/value head for `times` consecutive query heads.
ValueId repeat_heads(Builder& b, ValueId x, int64_t times);

// (queries, keys): 0 if query i may see key j: j <= past + i, and j > past + i - window if window > 0; otherwise
// `masked`.
ValueId causal_mask(Builder& b, int64_t queries, int64_t keys, int64_t past, double masked, DType t,
                    int64_t window = 0);
// Converts a boolean mask (true: visible) to an additive one.
ValueId additive(Builder& b, ValueId keep, double masked, DType t);
// Masks keys from position lens (B) on: (B, 1, 1, keys).
ValueId length_mask(Builder& b, ValueId lens, int64_t keys, double masked, DType t);

struct Attended {
  ValueId y, scores, capped, masked, weights;
};
// masks: added to the scores, with broadcasting. sink: (heads) logits that take part in the softmax without a
// value, or invalid. empty_rows_zero: a query with only -inf scores gives 0 instead of NaN. Training may drop
// probabilities (attributes training_dropout and site, set by importer/surgery/dropout.h).
Attended attend(const Lowering& l, ValueId q, ValueId k, ValueId v, double scale, double softcap,
                const std::vector<ValueId>& masks, ValueId sink = {}, bool empty_rows_zero = false);

}  // namespace amp
