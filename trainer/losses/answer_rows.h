// Log-probabilities of the answers of a language model, for losses that compare whole answers.
#pragma once

#include <string>

#include "trainer/losses/loss.h"

namespace amp::losses {

struct AnswerRows {
  ValueId own, valid;  // [R, S - 1]. own: log-probability of each label (ignored: 0); valid: 1, or 0 if ignored
};

// Returns log softmax(x)[y] of the labels [R, S]; logits [R, S, V] at s predict the label at s + 1. R must be even.
// rows: describes the order of the rows, for the error E_DATA_SHAPE of other shapes.
AnswerRows answer_rows(Builder& b, const LossSpec& spec, ValueId logits, ValueId label, const std::string& rows);

ValueId sums_of(Builder& b, const AnswerRows& r);        // [R]: log-probability of each answer
ValueId every_second(Builder& b, ValueId x, int64_t k);  // entries k, k + 2, ... of x [R]

}  // namespace amp::losses
