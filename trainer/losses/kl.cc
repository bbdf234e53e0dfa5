// Kullback-Leibler divergence from probabilities in the data, as torch.nn.KLDivLoss on log-softmax.
#include "ops/compose.h"
#include "trainer/losses/loss.h"

namespace amp::losses {

namespace {

Sums kl(Builder& b, const LossSpec&, const LossInputs& in) {  // label: probabilities in the output's shape
  const ValueId x = in.outputs[0];
  if (b.dims(in.label) != b.dims(x) || !is_float(b.dtype(in.label)))
    label_shape(b, x, in.label, "probabilities in the output's shape");
  const ValueId p = b.cast(in.label, b.dtype(x));
  return {total(b, divergence(b, p, b.op("Log", {b.op("Clip", {p}, {{"min", 1e-38}})}), b.op("LogSoftmax", {x})))};
}

Counts count_rows_of_last(const LossSpec&, const HostTensor& label, int64_t) {
  return {label.rank() == 0 || label.numel() == 0 ? 0.0 : static_cast<double>(label.numel() / label.dims().back())};
}

const LossRegistration kl_row{{
    .name = "kl",
    .doc = {{"logits, probabilities in their shape", "sum y (log y - log softmax(x))", "rows of the last axis"}},
    .build = kl,
    .count = count_rows_of_last,
    .synonyms = {"kl_div"},
    .after_softmax = true,
}};

}  // namespace

}  // namespace amp::losses
