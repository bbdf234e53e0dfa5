// Unpaired preferences: answers of a language model that are each marked as desirable or not. A sample has two rows:
// its answer, and another answer after the same prompt (data/language/marked_answers.h). The reward of an answer is
// beta times its log-probability minus that of the reference, as TRL reports rewards. An exported model is recorded
// as a language model with the same columns, because without the reference there is no reward.
#include <algorithm>
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

// outputs: logits and those of the reference (2 B, S, V) in fp32, and the marks (B) in fp32.
struct MarkedRows {
  const LossSpec& loss;
  std::span<const HostTensor> outputs;
  const HostTensor& label;

  bool desirable(int64_t sample) const { return outputs[2].as<float>()[sample] > 0.5F; }
  // Returns the log-probability of a row's answer minus that of the reference.
  double ratio(int64_t row) const {
    check(outputs.size() == 3, "unpaired preferences without the reference's outputs and the marks");
    return answer_probability(loss, outputs[0], label, row, false) -
           answer_probability(loss, outputs[1], label, row, false);
  }
  double reward(int64_t sample) const { return loss.number("beta") * ratio(2 * sample); }
};

class MarkMetrics final : public TaskMetrics {
 public:
  MarkMetrics(const LossSpec& loss, const MetricContext&) : loss_(loss) {}

  void add(const std::vector<HostTensor>& outputs, const HostTensor& label, std::span<const int64_t>) override {
    const std::vector<HostTensor> wide = in_fp32(outputs);
    const MarkedRows rows{loss_, wide, label};
    for (int64_t i = 0; i < label.dims().at(0) / 2; ++i) {
      const bool wanted = rows.desirable(i);
      const double reward = rows.reward(i);
      rewards_[wanted] += reward;
      ++answers_[wanted];
      right_ += (reward > 0) == wanted;
      divergence_ += rows.ratio(2 * i + 1);
    }
  }

  // The margin is NaN unless the rows contain both desirable and undesirable answers.
  MetricValues values(double) const override {
    const double all = answers_[0] + answers_[1];
    return {{"accuracy", right_ / all},
            {"margin", rewards_[1] / answers_[1] - rewards_[0] / answers_[0]},
            {"kl", std::max(0.0, divergence_ / all)}};
  }

 private:
  const LossSpec loss_;
  double rewards_[2] = {0, 0}, answers_[2] = {0, 0};  // for [0] undesirable and [1] desirable answers
  double right_ = 0, divergence_ = 0;
};

// The log-probability of each answer.
class AnswerProbability final : public Predictions {
 public:
  AnswerProbability(const LossSpec& loss, const PredictionContext& context)
      : loss_(loss), rows_(context.source_rows), sums_(static_cast<size_t>(context.rows), std::nan("")) {}

  void add(const std::vector<HostTensor>& outputs, const Batch& batch) override {
    const HostTensor logits = outputs.at(0).cast(DType::f32);
    // number of rows per sample: 2 if each sample has a second row with another answer, else 1
    const int64_t each = logits.dims().at(0) / batch.rows;
    for (int64_t r = 0; r < batch.rows; ++r) {
      auto row = static_cast<size_t>(batch.samples[static_cast<size_t>(r)]);
      if (!rows_.empty()) row = static_cast<size_t>(rows_[row]);
      sums_[row] = answer_probability(loss_, logits, batch.labels, each * r, false);
    }
  }

  std::vector<PredictedField> row(int64_t row) const override {
    return {{"log_probability", number(sums_[static_cast<size_t>(row)])}};
  }

  std::vector<NamedTensor> tensors() const override {
    const std::vector<float> values(sums_.begin(), sums_.end());
    return {{"log_probability", HostTensor::of<float>({static_cast<int64_t>(values.size())}, values)}};
  }

 private:
  const LossSpec loss_;
  std::span<const int64_t> rows_;  // row of each sample; empty: samples are rows
  std::vector<double> sums_;       // indexed by row of the data; NaN: the row was left out
};

// The error of an answer whose reward has the wrong sign is -log of the probability that its mark is right. Other
// answers have no error.
class MarkError final : public PerSampleError {
 public:
  MarkError(const LossSpec& loss, const MetricContext&) : loss_(loss) {}

  double error(const SampleRow& r) const override {
    const double gain = gain_of(r);
    return gain > 0 ? kNone : minus_log(math::sigmoid(gain));
  }

  void describe(const SampleRow& r, SampleRecord& out) const override {
    const bool wanted = MarkedRows{loss_, r.outputs, r.label}.desirable(r.row);
    out.label = wanted ? "desirable" : "undesirable";
    out.predicted = wanted ? "undesirable" : "desirable";
    out.probability = 1 - math::sigmoid(gain_of(r));
  }

 private:
  double gain_of(const SampleRow& r) const {
    const MarkedRows rows{loss_, r.outputs, r.label};
    return rows.desirable(r.row) ? rows.reward(r.row) : -rows.reward(r.row);
  }
  const LossSpec loss_;
};

const TaskRegistration unpaired_preference_row{{
    .name = "unpaired_preference",
    .labels = LabelForm::ids,
    .text = TextForm::own_tokens,
    .loss = "kto",
    .metrics = {{"accuracy"}, {"margin"}, {"kl", true}},
    .make_metrics = metrics_as<MarkMetrics>,
    .make_predictions = predictions_as<AnswerProbability>,
    .make_error = error_as<MarkError>,
    .recorded_as = "language",
}};

}  // namespace

}  // namespace amp
