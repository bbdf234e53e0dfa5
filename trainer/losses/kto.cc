// KTO (Ethayarajh et al. 2024, "KTO: Model Alignment as Prospect Theoretic Optimization", arXiv:2402.01306), for
// answers that are each marked as desirable or not. With r = log p - log p of the reference, an answer's loss is
//   desirable_weight (1 - sigmoid(beta (r - z0))), or undesirable_weight (1 - sigmoid(beta (z0 - r)))
// z0 estimates the KL divergence of the model from its reference: the mean of r over answers to other prompts of the
// batch, at least 0, without a gradient. The formulas are those of TRL's KTOTrainer (loss_type "kto").
// Row 2i is answer i after its prompt, row 2i + 1 another row's answer after the same prompt.
#include "ops/compose.h"
#include "trainer/losses/answer_rows.h"

namespace amp::losses {

namespace {

Sums kto(Builder& b, const LossSpec& spec, const LossInputs& in) {
  const auto sums = [&](ValueId logits) {
    return sums_of(b, answer_rows(b, spec, logits, in.label, "answers and answers to other prompts in turn"));
  };
  const ValueId ratio = sub(b, sums(in.outputs[0]), sums(in.teacher.at(0))), own = every_second(b, ratio, 0);
  const DType t = b.dtype(ratio);
  const int64_t rows = b.dims(own)[0];
  if (b.dims(in.second_label) != Dims{rows})
    label_shape(b, in.outputs[0], in.second_label, "'desirable' [B], 1 or 0, for logits [2 B, S, V]");
  const ValueId mean = scaled(b, total(b, every_second(b, ratio, 1)), 1 / static_cast<double>(rows));
  const ValueId z0 = b.op("Detach", {b.op("Max", {mean, b.scalar(0, t)})});
  const ValueId wanted = b.op("Greater", {b.cast(in.second_label, t), b.scalar(0.5, t)});
  const ValueId gain = scaled(b, sub(b, own, z0), spec.number("beta"));
  // 1 - sigmoid(u) = sigmoid(-u)
  const ValueId desirable = scaled(b, b.op("Sigmoid", {scaled(b, gain, -1)}), spec.number("desirable_weight")),
                undesirable = scaled(b, b.op("Sigmoid", {gain}), spec.number("undesirable_weight"));
  return {total(b, b.op("Where", {wanted, desirable, undesirable}))};
}

// Returns the number of answers, without the answers to other prompts.
Counts count_answers(const LossSpec&, const HostTensor& label, int64_t) {
  return {label.rank() == 2 ? static_cast<double>(label.dims()[0] / 2) : 0};  // answer_rows() reports other shapes
}

LossRule kto_rule() {
  LossRule r;
  r.name = "kto";
  r.doc = {{"logits [2 B, S, V], ids [2 B, S] of answers and answers to other prompts in turn; 'desirable' [B]",
            "w (1 - sigmoid(±beta (r - z0))), r: log p - log p of the reference", "answers"}};
  r.build = kto;
  r.count = count_answers;
  r.parameters = {{"beta", ParameterForm::number, 0.1, 0, true},
                  {"desirable_weight", ParameterForm::number, 1, 0},
                  {"undesirable_weight", ParameterForm::number, 1, 0},
                  kIgnoreIndexParameter};
  r.task = Task("unpaired_preference");
  r.second_label = kDesirable;
  r.teacher = r.own_reference = true;
  r.after_softmax = true;
  r.classes = ClassAxis::of_tokens;
  r.next_token = true;
  r.rows_in_turn = 2;
  return r;
}

const LossRegistration kto_row{kto_rule()};

}  // namespace

}  // namespace amp::losses
