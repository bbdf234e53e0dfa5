// The loss of ordinal regression: a binary cross-entropy for each threshold between K ordered classes. Output k is the
// logit of "the label is above class k" (Cao, Mirjalili, Raschka 2020, arXiv:1901.07884; coral_loss of coral-pytorch).
#include "base/error.h"
#include "ops/compose.h"
#include "trainer/losses/class_rows.h"
#include "trainer/losses/loss.h"

namespace amp::losses {

namespace {

ValueId importance(Builder& b, const LossSpec& spec, int64_t thresholds, DType type) {
  std::vector<double> w = spec.list("importance_weights");
  if (w.size() == 1) w.resize(static_cast<size_t>(thresholds), w[0]);
  if (static_cast<int64_t>(w.size()) != thresholds)
    fail(Exit::usage, "E_LOSS", cat(w.size(), " importance_weights for ", thresholds, " outputs"),
         "give one for each output, or one for all");
  return b.constant(HostTensor::of<double>({1, thresholds}, w).cast(type));
}

// Returns a table whose row y is the target of label y: 1 for the y thresholds below class y, then zeros.
ValueId level_table(Builder& b, int64_t thresholds, DType type) {
  std::vector<double> levels;
  for (int64_t y = 0; y <= thresholds; ++y) {
    for (int64_t k = 0; k < thresholds; ++k) levels.push_back(y > k);
  }
  return b.constant(HostTensor::of<double>({thresholds + 1, thresholds}, levels).cast(type));
}

// Uses -log sigmoid(x) = softplus(x) - x and -log(1 - sigmoid(x)) = softplus(x).
Sums coral(Builder& b, const LossSpec& spec, const LossInputs& in) {
  const ClassRows r = class_rows(b, spec, in.outputs[0], in.label, false);
  const int64_t rows = b.dims(r.logits)[0], thresholds = b.dims(r.logits)[1];
  const DType type = b.dtype(r.logits);
  const ValueId left_out = ignored(b, spec, r.label);
  const ValueId level = lookup(b, level_table(b, thresholds, type), lookup_index(b, left_out, r.label, thresholds + 1));
  ValueId l = sub(b, b.op("Softplus", {r.logits}), mul(b, r.logits, level));
  if (!spec.list("importance_weights").empty()) l = mul(b, l, importance(b, spec, thresholds, type));
  return {total(b, b.op("Where", {b.reshape(left_out, {rows, 1}), b.scalar(0, type), l}))};
}

const LossRegistration coral_row{{
    .name = "coral",
    .doc = {{"K - 1 logits for K ordered classes, class ids", "sum_k softplus(x_k) - x_k (y > k)", "rows"}},
    .build = coral,
    .count = count_valid,
    .parameters = {{"importance_weights", ParameterForm::list, 0, 0, false, std::numeric_limits<double>::infinity(),
                    "one, or one a logit"},
                   kIgnoreIndexParameter},
    .task = Task("ordinal"),
    .after_sigmoid = true,
    .classes = ClassAxis::of_rows,
    .more_classes = 1,
}};

}  // namespace

}  // namespace amp::losses
