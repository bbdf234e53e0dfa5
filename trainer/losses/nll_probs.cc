// Negative log-likelihood of probabilities, for models whose trailing softmax cannot be bypassed.
#include "ops/compose.h"
#include "trainer/losses/loss.h"

namespace amp::losses {

namespace {

Sums nll_probs(Builder& b, const LossSpec&, const LossInputs& in) {
  const Dims d = b.dims(in.outputs[0]);
  if (d.size() != 2 || numel(b.dims(in.label)) != d[0])
    label_shape(b, in.outputs[0], in.label, "one class id per row of probabilities");
  const ValueId index = b.reshape(b.cast(in.label, DType::i64), {d[0], 1});
  const ValueId p = b.op("GatherElements", {in.outputs[0], index}, {{"axis", int64_t{1}}});
  return {b.op("Neg", {total(b, b.op("Log", {p}))})};
}

const LossRegistration nll_probs_row{{
    .name = "nll_probs",
    .doc = {{"probabilities [B, C], ids [B]", "-log x[y]", "rows"}},
    .build = nll_probs,
    .count = count_all,
    .synonyms = {"nll"},
    .task = Task::classification,
    .after_softmax = true,
    .on_logits = "cross_entropy",  // the same value, but stable in 16 bits
    .classes = ClassAxis::of_rows,
}};

}  // namespace

}  // namespace amp::losses
