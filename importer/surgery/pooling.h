// Pools hidden states [B, S, H] to one vector per sequence, by the formulas of sentence-transformers' models.Pooling.
#pragma once

#include <string>

#include "importer/surgery/edit.h"

namespace amp {

// Adds nodes that pool `hidden` and returns their output [B, H * modes]. modes: cls, mean, max, mean_sqrt_len,
// weighted_mean or last; several ("cls+mean") are concatenated. Positions that the input attention_mask (or input_mask)
// marks as padding do not count; without such an input all positions count.
int pool_hidden_states(GraphEditor& e, int hidden, const std::string& modes);

int normalize_rows(GraphEditor& e, int x);  // adds nodes that scale each row of x [B, N] to length 1

}  // namespace amp
