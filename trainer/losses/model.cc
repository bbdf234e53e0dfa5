// A loss that the model computes itself: one of its outputs.
#include "ops/compose.h"
#include "trainer/losses/loss.h"

namespace amp::losses {

namespace {

// Returns the mean of the output times the number of rows, because each row counts as an item.
Sums model(Builder& b, const LossSpec&, const LossInputs& in) {
  const ValueId x = in.outputs[0];
  return {scaled(b, total(b, x), static_cast<double>(in.rows) / static_cast<double>(numel(b.dims(x))))};
}

const LossRegistration model_row{{
    .name = "model",
    .doc = {{"the model's own loss", "its mean", "batch rows"}},
    .build = model,
    .count = count_rows,
    .synonyms = {"output"},
    .label = "",
    .own_output = true,
}};

}  // namespace

}  // namespace amp::losses
