// Losses of the cosine similarity of pairs of rows.
#include "ops/compose.h"
#include "trainer/losses/embeddings.h"

namespace amp::losses {

namespace {

ValueId row_cosine(Builder& b, ValueId u, ValueId v) {
  const int64_t n = b.dims(u)[0];
  const ValueId dot = b.reduce_sum(mul(b, u, v), {1}, false);
  return div(b, dot, b.reshape(mul(b, norm(b, u), norm(b, v)), {n}));
}

// Returns the sum of 1 - cos(output, label) over the rows if the label has the output's shape. Otherwise the label is 1
// or -1 per pair: the sum then has 1 - cos for 1 and max(0, cos - margin) for -1, as torch.nn.CosineEmbeddingLoss.
Sums cosine(Builder& b, const LossSpec& spec, const LossInputs& in) {
  const ValueId x = in.outputs[0];
  const DType t = b.dtype(x);
  if (b.dims(in.label) == b.dims(x) && b.rank(x) == 2) {
    return {total(b, shifted(b, scaled(b, row_cosine(b, x, b.cast(in.label, t)), -1), 1))};
  }
  const std::vector<ValueId> s = sides(b, spec, in, 2);
  const ValueId c = row_cosine(b, s[0], s[1]);
  if (numel(b.dims(in.label)) != numel(b.dims(c)))
    label_shape(b, x, in.label, "1 or -1 per pair, or embeddings in the output's shape");
  const ValueId alike = b.op("Greater", {b.reshape(b.cast(in.label, t), b.dims(c)), b.scalar(0, t)});
  return {total(b, b.op("Where", {alike, shifted(b, scaled(b, c, -1), 1),
                                  b.op("Relu", {shifted(b, c, -spec.number("margin"))})}))};
}

Sums cosine_mse(Builder& b, const LossSpec& spec, const LossInputs& in) {
  const std::vector<ValueId> s = sides(b, spec, in, 2);
  const ValueId c = row_cosine(b, s[0], s[1]);
  return {total(b, square(b, sub(b, c, float_label(b, c, in.label))))};
}

const LossRegistration labeled{{
    .name = "cosine",
    .doc = {{"pairs of rows, 1 or -1 a pair", "1 - cos; max(0, cos - margin)", "pairs"},
            {"embeddings, embeddings", "1 - cos(x, y)", "rows"}},
    .build = cosine,
    .count = count_label_rows,
    .parameters = {{"margin"}},
    .embeddings = true,
}};

const LossRegistration cosine_numbers{{
    .name = "cosine_mse",
    .doc = {{"pairs of rows, a number a pair", "(cos - y)²", "pairs"}},
    .build = cosine_mse,
    .count = count_all,
    .task = Task::regression,
    .embeddings = true,
    .rows_in_turn = 2,
}};

}  // namespace

}  // namespace amp::losses
