// Triplet margin loss, as torch.nn.TripletMarginLoss.
#include "base/error.h"
#include "ops/compose.h"
#include "trainer/losses/embeddings.h"

namespace amp::losses {

namespace {

// Returns |u - v + 1e-6| per row, as torch.nn.functional.pairwise_distance.
ValueId distance(Builder& b, ValueId u, ValueId v) {
  return safe_sqrt(b, b.reduce_sum(square(b, shifted(b, sub(b, u, v), 1e-6)), {1}, false));
}

Sums triplet(Builder& b, const LossSpec& spec, const LossInputs& in) {  // max(0, |a - p| - |a - n| + margin)
  const std::vector<ValueId> s = sides(b, spec, in, 3);
  if (s.size() != 3)
    fail(Exit::usage, "E_LOSS_IO",
         "triplet takes one output with rows anchor, positive, negative in turn, or three outputs",
         "name the output or outputs with `output`");
  return {total(
      b, b.op("Relu", {shifted(b, sub(b, distance(b, s[0], s[1]), distance(b, s[0], s[2])), spec.number("margin"))}))};
}

const LossRegistration triplet_row{{
    .name = "triplet",
    .doc = {{"rows anchor, positive, negative; or three outputs", "max(0, d(a, p) - d(a, n) + margin)", "triples"}},
    .build = triplet,
    .count = count_groups,
    .parameters = {{"margin", ParameterForm::number, 1}},
    .label = "",
    .max_outputs = 3,
    .embeddings = true,
    .rows_in_turn = 3,
}};

}  // namespace

}  // namespace amp::losses
