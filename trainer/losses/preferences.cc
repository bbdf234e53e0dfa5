// Losses of language models on pairs of answers to the same prompt: row 2i is the preferred answer, row 2i + 1 the
// rejected one. A row's log-probability is the sum (DPO) or the mean (ORPO, SimPO) of log softmax(x)[y] over its valid
// labels. The formulas are those of TRL's trainers and of the papers:
//   DPO    Rafailov et al. 2023, arXiv:2305.18290; label_smoothing as in cDPO (Mitchell 2023)
//   ORPO   Hong et al. 2024, arXiv:2403.07691
//   SimPO  Meng et al. 2024, arXiv:2405.14734
#include "ops/compose.h"
#include "trainer/losses/answer_rows.h"

namespace amp::losses {

namespace {

constexpr const char* kTurns = "preferred and rejected answers in turn";

AnswerRows pair_rows(Builder& b, const LossSpec& spec, ValueId logits, ValueId label) {
  return answer_rows(b, spec, logits, label, kTurns);
}

// Returns the mean log-probability of each row's valid labels; 0 for a row without valid labels.
ValueId means_of(Builder& b, const AnswerRows& r) {
  const ValueId count = b.reduce_sum(r.valid, {1}, false), one = b.scalar(1, b.dtype(count));
  return div(b, sums_of(b, r), b.op("Where", {b.op("Less", {count, one}), one, count}));
}

ValueId difference(Builder& b, ValueId x) { return sub(b, every_second(b, x, 0), every_second(b, x, 1)); }

ValueId minus_log_sigmoid(Builder& b, ValueId u) { return b.op("Softplus", {scaled(b, u, -1)}); }

// Returns the sum of -(1 - e) log sigmoid(u) - e log sigmoid(-u); e: label_smoothing.
ValueId smoothed(Builder& b, const LossSpec& spec, ValueId u) {
  const double e = spec.number("label_smoothing");
  const ValueId right = minus_log_sigmoid(b, u);
  if (e == 0) return total(b, right);
  return total(b, add(b, scaled(b, right, 1 - e), scaled(b, b.op("Softplus", {u}), e)));
}

Sums dpo(Builder& b, const LossSpec& spec, const LossInputs& in) {
  const ValueId policy = sums_of(b, pair_rows(b, spec, in.outputs[0], in.label)),
                reference = sums_of(b, pair_rows(b, spec, in.teacher.at(0), in.label));
  return {smoothed(b, spec, scaled(b, difference(b, sub(b, policy, reference)), spec.number("beta")))};
}

Sums simpo(Builder& b, const LossSpec& spec, const LossInputs& in) {
  const ValueId means = means_of(b, pair_rows(b, spec, in.outputs[0], in.label));
  return {smoothed(b, spec, shifted(b, scaled(b, difference(b, means), spec.number("beta")), -spec.number("gamma")))};
}

// Returns log(p / (1 - p)) for p = exp(x).
ValueId log_odds(Builder& b, ValueId x) {
  const ValueId other = shifted(b, scaled(b, b.op("Exp", {x}), -1), 1);
  return sub(b, x, b.op("Log", {other}));
}

Sums orpo(Builder& b, const LossSpec& spec, const LossInputs& in) {
  const AnswerRows rows = pair_rows(b, spec, in.outputs[0], in.label);
  const ValueId learnt = every_second(b, sums_of(b, rows), 0), odds = log_odds(b, means_of(b, rows));
  return {scaled(b, total(b, learnt), -1),
          scaled(b, total(b, minus_log_sigmoid(b, difference(b, odds))), spec.number("beta"))};
}

Counts count_pairs(const LossSpec&, const HostTensor& label, int64_t) {
  return {label.rank() == 2 ? static_cast<double>(label.dims()[0] / 2) : 0};  // answer_rows() reports other shapes
}

// Counts two kinds of items: valid labels of preferred answers, and pairs.
Counts count_orpo(const LossSpec& spec, const HostTensor& label, int64_t rows) {
  if (label.rank() != 2) return {0, 0};
  const std::vector<int64_t> ids = label.to_ints();
  const auto length = static_cast<size_t>(label.dims()[1]);
  double n = 0;
  for (size_t i = 0; i < ids.size(); ++i) n += i / length % 2 == 0 && i % length > 0 && ids[i] != spec.ignore_index();
  return {n, count_pairs(spec, label, rows)[0]};
}

constexpr const char* kTakes = "logits [2 B, S, V], ids [2 B, S] of preferred and rejected answers in turn";

LossRule pair_rule(const char* name, LossDoc doc) {
  LossRule r;
  r.name = name;
  r.doc = {doc};
  r.task = Task("preference");
  r.after_softmax = true;
  r.classes = ClassAxis::of_tokens;
  r.next_token = true;
  r.rows_in_turn = 2;
  return r;
}

LossRule dpo_rule() {
  LossRule r = pair_rule(
      "dpo", {kTakes, "-log sigmoid(beta (Δ log p - Δ log p of the reference)); Δ: preferred - rejected", "pairs"});
  r.build = dpo;
  r.count = count_pairs;
  r.parameters = {{"beta", ParameterForm::number, 0.1, 0, true}, kLabelSmoothing, kIgnoreIndexParameter};
  r.teacher = r.own_reference = true;
  return r;
}

LossRule orpo_rule() {
  LossRule r = pair_rule("orpo", {kTakes, "-log p[y], plus -beta log sigmoid(Δ log(p / (1 - p))) of the answers' means",
                                  "valid labels of preferred answers; pairs"});
  r.build = orpo;
  r.count = count_orpo;
  r.parameters = {{"beta", ParameterForm::number, 0.1, 0, true}, kIgnoreIndexParameter};
  r.weights = {1, 1};
  return r;
}

LossRule simpo_rule() {
  LossRule r = pair_rule("simpo", {kTakes, "-log sigmoid(beta Δ mean log p - gamma)", "pairs"});
  r.build = simpo;
  r.count = count_pairs;
  r.parameters = {{"beta", ParameterForm::number, 2, 0, true},
                  {"gamma", ParameterForm::number, 0.5, 0},
                  kLabelSmoothing,
                  kIgnoreIndexParameter};
  return r;
}

const LossRegistration dpo_row{dpo_rule()}, orpo_row{orpo_rule()}, simpo_row{simpo_rule()};

}  // namespace

}  // namespace amp::losses
