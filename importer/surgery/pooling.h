// Pooling: hidden states [B, S, H] as one vector a row, by the formulas of sentence-transformers' models.Pooling.
#pragma once

#include <string>

#include "importer/surgery/edit.h"

namespace amp {

// modes: one of cls, mean, max, mean_sqrt_len, weighted_mean, last; or several, "cls+mean", side by side. Padding is
// what attention_mask (input_mask) says; without such an input all places count. Returns a value [B, H * modes].
int pool_hidden_states(GraphEditor& e, int hidden, const std::string& modes);

int normalize_rows(GraphEditor& e, int x);  // each row to length 1

}  // namespace amp
