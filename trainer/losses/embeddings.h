// Losses on embeddings: pairs and triples of rows. A model with one output gives them in turn (rows 2i and 2i + 1, or
// 3i, 3i + 1, 3i + 2); a model with an output for each side gives them side by side.
#pragma once

#include "trainer/losses/loss.h"

namespace amp::losses {

// n matrices [rows, H]; as many as spec.sides says.
std::vector<ValueId> sides(Builder& b, const LossSpec& spec, const LossInputs& in, size_t n);
// |x| per row, at least 1e-8 as torch.nn.functional.cosine_similarity has it
ValueId norm(Builder& b, ValueId x);

}  // namespace amp::losses
