// Pools hidden states [B, S, H] to one vector per row, by the formulas of sentence-transformers' models.Pooling.
#pragma once

#include <string>

#include "importer/surgery/edit.h"

namespace amp {

// modes: one of cls, mean, max, mean_sqrt_len, weighted_mean, last; or several, "cls+mean", which are concatenated.
// attention_mask (or input_mask) marks padding; without such an input all positions count. Returns a value
// [B, H * modes].
int pool_hidden_states(GraphEditor& e, int hidden, const std::string& modes);

int normalize_rows(GraphEditor& e, int x);  // each row to length 1

}  // namespace amp
