// Binary cross-entropy of logits.
#include "base/error.h"
#include "ops/compose.h"
#include "trainer/losses/loss.h"

namespace amp::losses {

namespace {

// Returns pos_weight in a shape that broadcasts to x: along its last axis, or along axis 1 if only that has as many
// elements as pos_weight.
ValueId positive_weight(Builder& b, const LossSpec& spec, ValueId x) {
  const std::vector<double>& w = spec.list("pos_weight");
  const Dims d = b.dims(x);
  const int64_t n = static_cast<int64_t>(w.size());
  Dims shape(d.size(), 1);
  if (n > 1) {
    const size_t axis = !d.empty() && d.back() == n ? d.size() - 1 : 1;
    if (axis >= d.size() || d[axis] != n) {
      fail(Exit::usage, "E_LOSS", cat(n, " values of pos_weight for an output of shape ", to_string(d)),
           "give one a class, or one for all");
    }
    shape[axis] = n;
  }
  return b.constant(HostTensor::of<double>(shape, w).cast(b.dtype(x)));
}

}  // namespace

// Returns the sum of softplus(x) - x y or, with pos_weight w, of (1 - y) x + (1 + (w - 1) y) softplus(-x), as
// torch.nn.BCEWithLogitsLoss.
ValueId binary_entropy(Builder& b, const LossSpec& spec, ValueId x, ValueId label) {
  const ValueId y = float_label(b, x, label);
  ValueId l;
  if (spec.list("pos_weight").empty()) {
    l = sub(b, b.op("Softplus", {x}), mul(b, x, y));
  } else {
    const ValueId w = shifted(b, mul(b, y, shifted(b, positive_weight(b, spec, x), -1)), 1);
    l = add(b, mul(b, shifted(b, scaled(b, y, -1), 1), x), mul(b, w, b.op("Softplus", {scaled(b, x, -1)})));
  }
  return total(b, b.op("Where", {b.reshape(ignored(b, spec, label), b.dims(x)), b.scalar(0, b.dtype(x)), l}));
}

namespace {

Sums bce_logits(Builder& b, const LossSpec& spec, const LossInputs& in) {
  return {binary_entropy(b, spec, in.outputs[0], in.label)};
}

ValueId draw_binary(Builder& b, const LossSpec& spec, const LossInputs& in, ValueId uniform) {
  const ValueId p = b.reshape(b.op("Sigmoid", {in.outputs[0]}), b.dims(uniform));
  const ValueId drawn = b.cast(b.op("Less", {uniform, p}), b.dtype(in.label));
  return b.op("Where", {ignored(b, spec, in.label), in.label, drawn});
}

const LossRegistration bce_logits_row{{
    .name = "bce_logits",
    .doc = {{"logits, probabilities or 0/1 in their shape", "softplus(x) - x y", "elements"}},
    .build = bce_logits,
    .count = count_valid,
    .parameters = {kPosWeight, kIgnoreIndexParameter},
    .synonyms = {"bce", "bce_with_logits"},
    .task = Task::multilabel,
    .after_sigmoid = true,
    .draw = draw_binary,
}};

}  // namespace

}  // namespace amp::losses
