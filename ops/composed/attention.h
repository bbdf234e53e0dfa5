// What the attention operators share: softmax(softcap(alpha Q K^T) + mask) V, composed of core operators. Heads are
// dimension 1 of four: (B, H, S, D). ops/composed/attention.cc: ONNX 23 and the helpers; attention_contrib.cc,
// group_query.cc: com.microsoft.
#pragma once

#include "graph/lower.h"

namespace amp {

// (B, S, H D) -> (B, H, S, D) and back.
ValueId split_heads(Builder& b, ValueId x, int64_t heads);
ValueId merge_heads(Builder& b, ValueId x);
// Every key/value head serves `times` query heads in a row.
ValueId repeat_heads(Builder& b, ValueId x, int64_t times);

// (queries, keys): 0 where query i may see key j <= past + i, and j > past + i - window when window > 0; else masked.
ValueId causal_mask(Builder& b, int64_t queries, int64_t keys, int64_t past, double masked, DType t,
                    int64_t window = 0);
// keep is boolean, true: takes part.
ValueId additive(Builder& b, ValueId keep, double masked, DType t);
// Keys at and behind lens (B) are masked: (B, 1, 1, keys).
ValueId length_mask(Builder& b, ValueId lens, int64_t keys, double masked, DType t);

struct Attended {
  ValueId y, scores, capped, masked, weights;
};
// masks: each added to the scores, broadcast. sink: (heads) logits that take part in the softmax and give nothing, or
// invalid. empty_rows_zero: a query whose scores are -inf throughout sees nothing: 0, where the formula says NaN.
// Training may drop probabilities (attributes training_dropout and site, put there by importer/surgery/dropout.h).
Attended attend(const Lowering& l, ValueId q, ValueId k, ValueId v, double scale, double softcap,
                const std::vector<ValueId>& masks, ValueId sink = {}, bool empty_rows_zero = false);

}  // namespace amp
