// Functions that build losses on embeddings of pairs and triples. The texts of a pair or triple are its sides. In a
// model with one output, the rows of the sides alternate: item i has the rows 2i and 2i + 1, or 3i, 3i + 1 and 3i + 2.
// Otherwise each side is a separate output.
#pragma once

#include "trainer/losses/loss.h"

namespace amp::losses {

// Returns the sides as matrices [rows, H], one per output. A single output contains spec.sides sides, or n if
// spec.sides is 0.
std::vector<ValueId> sides(Builder& b, const LossSpec& spec, const LossInputs& in, size_t n);
// Returns the 2-norm of each row, at least 1e-8 as in torch.nn.functional.cosine_similarity.
ValueId norm(Builder& b, ValueId x);

}  // namespace amp::losses
