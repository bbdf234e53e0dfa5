// Preferences: pairs of answers of a language model to the same prompt, of which one is preferred. Rows alternate. The
// reward of an answer is beta times its log-probability: the sum over its tokens minus that of the teacher (dpo), or
// the mean over its tokens (orpo, simpo), as TRL reports rewards.
#include <cmath>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/math.h"
#include "trainer/losses/loss.h"
#include "trainer/tasks/answer_probability.h"
#include "trainer/tasks/task_rule.h"

namespace amp {

namespace {

// Returns the reward of a pair's preferred answer minus the reward of its rejected answer. outputs: logits in fp32; for
// losses with a teacher, also the teacher's logits.
double margin_of(const LossSpec& loss, std::span<const HostTensor> outputs, const HostTensor& label, int64_t pair) {
  const bool reference = loss_rule(loss.kind).teacher;
  check(!reference || outputs.size() > 1, "preference metrics without the teacher's outputs");
  double reward[2];
  for (int64_t k = 0; k < 2; ++k) {
    reward[k] = answer_probability(loss, outputs[0], label, 2 * pair + k, !reference);
    if (reference) reward[k] -= answer_probability(loss, outputs[1], label, 2 * pair + k, false);
  }
  return loss.number("beta") * (reward[0] - reward[1]);
}

class PreferenceMetrics final : public TaskMetrics {
 public:
  PreferenceMetrics(const LossSpec& loss, const MetricContext&) : loss_(loss) {}

  void add(const std::vector<HostTensor>& outputs, const HostTensor& label, std::span<const int64_t>) override {
    const std::vector<HostTensor> logits = in_fp32(outputs);
    for (int64_t pair = 0; pair < label.dims().at(0) / 2; ++pair) {
      const double margin = margin_of(loss_, logits, label, pair);
      margins_ += margin;
      right_ += margin > 0;
      ++pairs_;
    }
  }

  MetricValues values(double) const override {
    return {{"accuracy", static_cast<double>(right_) / static_cast<double>(pairs_)},
            {"margin", margins_ / static_cast<double>(pairs_)}};
  }

 private:
  const LossSpec loss_;
  double margins_ = 0;
  int64_t right_ = 0, pairs_ = 0;
};

// The log-probabilities of both answers of each row.
class AnswerProbabilities final : public Predictions {
 public:
  AnswerProbabilities(const LossSpec& loss, const PredictionContext& context)
      : loss_(loss), rows_(context.source_rows) {
    for (std::vector<double>& side : sums_) side.assign(static_cast<size_t>(context.rows), std::nan(""));
  }

  void add(const std::vector<HostTensor>& outputs, const Batch& batch) override {
    const HostTensor logits = outputs.at(0).cast(DType::f32);
    for (int64_t r = 0; r < batch.rows; ++r) {
      auto row = static_cast<size_t>(batch.samples[static_cast<size_t>(r)]);
      if (!rows_.empty()) row = static_cast<size_t>(rows_[row]);
      for (int64_t k = 0; k < 2; ++k)
        sums_[static_cast<size_t>(k)][row] = answer_probability(loss_, logits, batch.labels, 2 * r + k, false);
    }
  }

  std::vector<PredictedField> row(int64_t row) const override {
    const auto r = static_cast<size_t>(row);
    return {{"chosen_log_probability", number(sums_[0][r])}, {"rejected_log_probability", number(sums_[1][r])}};
  }

  std::vector<NamedTensor> tensors() const override {
    std::vector<NamedTensor> out;
    for (size_t k = 0; k < 2; ++k) {
      const std::vector<float> values(sums_[k].begin(), sums_[k].end());
      out.push_back({k == 0 ? "chosen_log_probability" : "rejected_log_probability",
                     HostTensor::of<float>({static_cast<int64_t>(values.size())}, values)});
    }
    return out;
  }

 private:
  const LossSpec loss_;
  std::span<const int64_t> rows_;  // row of each sample; empty: samples are rows
  std::vector<double> sums_[2];    // indexed by row of the data; NaN: the row was left out
};

// The error of a pair whose rejected answer has the larger reward: -log sigmoid of the margin.
class PreferenceError final : public PerSampleError {
 public:
  PreferenceError(const LossSpec& loss, const MetricContext&) : loss_(loss) {}

  double error(const SampleRow& r) const override {
    const double margin = margin_of(loss_, r.outputs, r.label, r.row);
    return margin > 0 ? kNone : minus_log(math::sigmoid(margin));
  }

  void describe(const SampleRow& r, SampleRecord& out) const override {
    out.label = "the preferred answer";
    out.predicted = "the rejected answer";
    out.probability = 1 - math::sigmoid(margin_of(loss_, r.outputs, r.label, r.row));
  }

 private:
  const LossSpec loss_;
};

const TaskRegistration preference_row{{
    .name = "preference",
    .labels = LabelForm::ids,
    .text = TextForm::own_tokens,
    .loss = "orpo",
    .metrics = {{"accuracy"}, {"margin"}},
    .make_metrics = metrics_as<PreferenceMetrics>,
    .make_predictions = predictions_as<AnswerProbabilities>,
    .make_error = error_as<PreferenceError>,
}};

}  // namespace

}  // namespace amp
