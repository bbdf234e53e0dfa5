// Functions that several losses use: parts of graphs, and counts of items.
#include <algorithm>

#include "base/error.h"
#include "ops/compose.h"
#include "trainer/losses/loss.h"

namespace amp::losses {

ValueId total(Builder& b, ValueId x) { return b.reduce_sum(b.reshape(x, {numel(b.dims(x))}), {0}, false); }
ValueId square(Builder& b, ValueId x) { return mul(b, x, x); }
ValueId safe_sqrt(Builder& b, ValueId x) { return b.op("Sqrt", {b.op("Clip", {x}, {{"min", 1e-30}})}); }

void label_shape(const Builder& b, ValueId out, ValueId label, const std::string& want) {
  fail(Exit::data, "E_DATA_SHAPE",
       cat("label has shape ", to_string(b.dims(label)), ", the output ", to_string(b.dims(out)), ": the loss needs ",
           want),
       "choose another output with `output` or another loss with `loss`; in training, a new head is made by `head`");
}

ValueId float_label(Builder& b, ValueId out, ValueId label) {  // also for an output [B, 1] and a label [B]
  if (numel(b.dims(label)) != numel(b.dims(out))) label_shape(b, out, label, "the output's shape");
  return b.reshape(b.cast(label, b.dtype(out)), b.dims(out));
}

ValueId residual(Builder& b, const LossInputs& in) {
  return sub(b, in.outputs[0], float_label(b, in.outputs[0], in.label));
}

ValueId ignored(Builder& b, const LossSpec& spec, ValueId label) {
  return b.op("Equal", {label, b.scalar(static_cast<double>(spec.ignore_index()), b.dtype(label))});
}

ValueId divergence(Builder& b, ValueId p, ValueId log_p, ValueId log_q) {
  const ValueId zero = b.scalar(0, b.dtype(p));
  const ValueId parts = b.op("Where", {b.op("Equal", {p, zero}), zero, mul(b, p, sub(b, log_p, log_q))});
  return b.reduce_sum(parts, {b.rank(p) - 1}, false);
}

Counts count_all(const LossSpec&, const HostTensor& label, int64_t) { return {static_cast<double>(label.numel())}; }

Counts count_valid(const LossSpec& spec, const HostTensor& label, int64_t) {
  const std::vector<double> y = label.to_doubles();
  const auto skipped = std::count(y.begin(), y.end(), static_cast<double>(spec.ignore_index()));
  return {static_cast<double>(y.size()) - static_cast<double>(skipped)};
}

Counts count_rows(const LossSpec&, const HostTensor&, int64_t rows) { return {static_cast<double>(rows)}; }

Counts count_label_rows(const LossSpec&, const HostTensor& label, int64_t) {
  return {label.rank() == 0 ? 1.0 : static_cast<double>(label.dims()[0])};
}

Counts count_groups(const LossSpec& spec, const HostTensor&, int64_t rows) {
  return {static_cast<double>(rows / rows_together(spec))};
}

}  // namespace amp::losses
