// Cross-entropy and its variants, which differ in the layout of logits and labels: cross_entropy_nchw, masked_lm and
// causal_lm. class_rows.h has the formula.
#include "ops/compose.h"
#include "trainer/losses/class_rows.h"

namespace amp::losses {

namespace {

Sums cross_entropy(Builder& b, const LossSpec& spec, const LossInputs& in) {
  if (are_probabilities(b, in)) return {soft_entropy(b, spec, in.outputs[0], in.label)};
  return {entropy(b, spec, class_rows(b, spec, in.outputs[0], in.label))};
}

Sums cross_entropy_nchw(Builder& b, const LossSpec& spec, const LossInputs& in) {
  return {entropy(b, spec, class_rows(b, spec, in.outputs[0], in.label, true))};
}

Sums causal_lm(Builder& b, const LossSpec& spec, const LossInputs& in) {  // logits at s predict the label at s + 1
  const Dims d = b.dims(in.outputs[0]);
  if (d.size() != 3 || b.dims(in.label) != Dims{d[0], d[1]})
    label_shape(b, in.outputs[0], in.label, "token ids [B, S] for logits [B, S, V]");
  const int64_t n = d[1] - 1;
  if (n == 0) return {b.scalar(0, b.dtype(in.outputs[0]))};
  return {entropy(b, spec, class_rows(b, spec, slice(b, in.outputs[0], 1, 0, n), slice(b, in.label, 1, 1, n)))};
}

ValueId draw_class(Builder& b, const LossSpec& spec, const LossInputs& in, ValueId uniform) {
  return draw_classes(b, spec, in.outputs[0], in.label, uniform);
}
ValueId draw_places(Builder& b, const LossSpec& spec, const LossInputs& in, ValueId uniform) {
  return draw_classes(b, spec, in.outputs[0], in.label, uniform, true);
}
ValueId draw_causal(Builder& b, const LossSpec& spec, const LossInputs& in, ValueId uniform) {
  const int64_t n = b.dims(in.label).at(1) - 1;
  if (n == 0) return in.label;
  const auto next = [&](ValueId x) { return slice(b, x, 1, 1, n); };
  const ValueId drawn = draw_classes(b, spec, slice(b, in.outputs[0], 1, 0, n), next(in.label), next(uniform));
  return concat(b, {slice(b, in.label, 1, 0, 1), drawn}, 1);
}

Counts count_causal(const LossSpec& spec, const HostTensor& label, int64_t) {
  if (label.rank() != 2) return {0};  // causal_lm() reports the error
  double n = 0;
  const std::vector<double> w = label_weights(spec, label.to_ints());
  for (size_t i = 0; i < w.size(); ++i) n += static_cast<int64_t>(i) % label.dims()[1] ? w[i] : 0;
  return {n};
}

const std::vector<LossParameter> kParameters = {kIgnoreIndexParameter, kClassWeights, kLabelSmoothing};

const LossRegistration cross_entropy_rows{{
    .name = "cross_entropy",
    .doc = {{"logits [..., C], class ids [...]; or [B, C, ...] and [B, ...]", "-log softmax(x)[y]",
             "valid labels, by class weight"},
            {"logits [B, C], probabilities [B, C]", "-sum y log softmax(x)", "rows"}},
    .build = cross_entropy,
    .count = count_classes,
    .parameters = kParameters,
    .synonyms = {"ce"},
    .task = Task::classification,
    .after_softmax = true,
    .classes = ClassAxis::of_rows,
    .draw = draw_class,
}};

const LossRegistration places{{
    .name = "cross_entropy_nchw",
    .doc = {{"as cross_entropy, the second form where both fit", "as cross_entropy", "as cross_entropy"}},
    .build = cross_entropy_nchw,
    .count = count_classes,
    .parameters = kParameters,
    .task = Task::segmentation,
    .after_softmax = true,
    .classes = ClassAxis::of_places,
    .draw = draw_places,
}};

const LossRegistration masked{{
    .name = "masked_lm",
    .doc = {{"logits [B, S, V], ids [B, S]", "as cross_entropy", "as cross_entropy"}},
    .build = cross_entropy,
    .count = count_classes,
    .parameters = kParameters,
    .synonyms = {"mlm"},
    .task = Task::language,
    .after_softmax = true,
    .classes = ClassAxis::of_tokens,
    .hidden_tokens = true,
    .draw = draw_class,
}};

const LossRegistration causal{{
    .name = "causal_lm",
    .doc = {{"logits [B, S, V], ids [B, S]", "position s against y[s + 1]", "valid labels from s = 1"}},
    .build = causal_lm,
    .count = count_causal,
    .parameters = kParameters,
    .synonyms = {"clm"},
    .task = Task::language,
    .after_softmax = true,
    .classes = ClassAxis::of_tokens,
    .next_token = true,
    .draw = draw_causal,
}};

}  // namespace

}  // namespace amp::losses
