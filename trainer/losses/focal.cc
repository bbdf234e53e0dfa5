// Focal loss (Lin et al. 2017, arXiv:1708.02002), for class ids and for binary labels.
#include "ops/compose.h"
#include "trainer/losses/class_rows.h"

namespace amp::losses {

namespace {

// Returns x^gamma for x >= 0, with a finite gradient at 0.
ValueId power(Builder& b, ValueId x, double gamma) {
  if (gamma == 1) return x;
  if (gamma == 2) return square(b, x);
  return b.op("Pow", {b.op("Clip", {x}, {{"min", 1e-12}}), b.scalar(gamma, b.dtype(x))});
}

// Returns the sum of alpha_t (1 - p_t)^gamma (-log p_t) over the elements (sigmoid form; Lin et al. 2017, equation 5).
ValueId binary_focal(Builder& b, const LossSpec& spec, ValueId x, ValueId label) {
  const ValueId y = float_label(b, x, label);
  const double gamma = spec.number("gamma"), alpha = spec.number("alpha");
  const ValueId other = shifted(b, scaled(b, y, -1), 1);
  const ValueId entropy = sub(b, b.op("Softplus", {x}), mul(b, x, y));
  const ValueId p = b.op("Sigmoid", {x});
  // l is the cross-entropy -log p_t, p the probability and y the label: 1 - p_t = p + y - 2 p y.
  ValueId l = entropy;
  if (gamma != 0) l = mul(b, l, power(b, add(b, p, mul(b, y, shifted(b, scaled(b, p, -2), 1))), gamma));
  if (alpha >= 0) l = mul(b, l, add(b, scaled(b, y, alpha), scaled(b, other, 1 - alpha)));
  return total(b, b.op("Where", {b.reshape(ignored(b, spec, label), b.dims(x)), b.scalar(0, b.dtype(x)), l}));
}

Sums focal(Builder& b, const LossSpec& spec, const LossInputs& in) {
  const ValueId out = in.outputs[0];
  if (numel(b.dims(out)) == numel(b.dims(in.label))) return {binary_focal(b, spec, out, in.label)};
  // The loss for class ids is (1 - p_y)^gamma w_y (-log p_y), where p_y and w_y are the probability and the weight of
  // the label's class y.
  const Picked p = pick(b, spec, class_rows(b, spec, out, in.label));
  const double gamma = spec.number("gamma");
  ValueId l = p.own;
  if (gamma != 0)
    l = mul(b, l, power(b, b.op("Clip", {shifted(b, scaled(b, b.op("Exp", {p.own}), -1), 1)}, {{"min", 0.0}}), gamma));
  if (p.weight) l = mul(b, l, p.weight);
  return {b.op("Neg", {sum_valid(b, p, l)})};
}

Counts count_focal(const LossSpec& spec, const HostTensor& label, int64_t rows) {
  return spec.list("class_weights").empty() ? count_valid(spec, label, rows) : count_classes(spec, label, rows);
}

const LossRegistration focal_row{{
    .name = "focal",
    .doc = {{"logits in the label's shape, 0 or 1", "alpha_t (1 - p_t)^gamma (-log p_t)", "elements"},
            {"logits and class ids as cross_entropy", "(1 - p_y)^gamma (-log p_y)", "as cross_entropy"}},
    .build = focal,
    .count = count_focal,
    .parameters = {{"gamma", ParameterForm::number, 2, 0},
                   {.name = "alpha", .preset = 0.25, .high = 1, .note = "below 0: none"},
                   kIgnoreIndexParameter,
                   kClassWeights},
    .task = Task::classification,
    .after_softmax = true,
    .after_sigmoid = true,
    .classes = ClassAxis::of_rows_or_elements,
}};

}  // namespace

}  // namespace amp::losses
