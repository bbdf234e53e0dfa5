// Multilabel classification: predicts any number of classes for each row, with a logit per class.
// The error of a sample is its binary cross-entropy.
#include <algorithm>
#include <memory>

#include "base/math.h"
#include "base/text.h"
#include "trainer/metrics/metrics.h"
#include "trainer/tasks/probabilities.h"
#include "trainer/tasks/task_rule.h"

namespace amp {

namespace {

class MultilabelMetrics final : public TaskMetrics {
 public:
  MultilabelMetrics(const LossSpec& loss, const MetricContext&) : ignore_(static_cast<float>(loss.ignore_index())) {}
  void add(const std::vector<HostTensor>& outputs, const HostTensor& label, std::span<const int64_t>) override {
    const Dims& d = outputs.at(0).dims();
    if (!metric_) metric_ = std::make_unique<Multilabel>(d.size() < 2 ? 1 : d.back());
    metric_->add(floats(outputs[0]), floats(label), 0, ignore_);  // a logit of 0 is a probability of 0.5
  }
  MetricValues values(double) const override {
    const Multilabel none(1);
    const Multilabel& m = metric_ ? *metric_ : none;
    return {{"micro_f1", m.micro_f1()}, {"macro_f1", m.macro_f1()}, {"exact_match", m.exact_match()}};
  }

 private:
  float ignore_;
  std::unique_ptr<Multilabel> metric_;
};

class AnyClasses final : public Probabilities {
 public:
  using Probabilities::Probabilities;

  std::vector<PredictedField> row(int64_t row) const override {
    nlohmann::ordered_json labels = nlohmann::ordered_json::array();
    const std::span<const double> p = of(row);
    for (int64_t c = 0; c < classes_; ++c) {
      if (p[static_cast<size_t>(c)] > 0.5) labels.push_back(class_name(names_, c));
    }
    return {{"predicted_labels", std::move(labels), '|'}, {"probabilities", by_name(row)}};
  }

  std::vector<NamedTensor> tensors() const override { return {probabilities()}; }

 private:
  void fill(std::span<const float> x, std::span<double> p) const override {
    std::transform(x.begin(), x.end(), p.begin(), [](float v) { return math::sigmoid(v); });
  }
};

class SetError final : public PerSampleError {
 public:
  SetError(const LossSpec&, const MetricContext& context) : names_(context.classes) {}

  double error(const SampleRow& r) const override {
    const std::span<const float> x = values_of(r);
    const std::vector<double> label = labels_of(r);
    double sum = 0;
    bool wrong = false;
    for (size_t i = 0; i < x.size() && i < label.size(); ++i) {
      if (label[i] < 0) continue;  // a negative label means that the element is ignored
      const double p = math::sigmoid(x[i]);
      sum += minus_log(label[i] >= 0.5 ? p : 1 - p);
      wrong |= !((p > 0.5) == (label[i] >= 0.5)) || std::isnan(p);
    }
    return wrong ? sum : kNone;
  }

  void describe(const SampleRow& r, SampleRecord& out) const override {
    const std::span<const float> x = values_of(r);
    const std::vector<double> label = labels_of(r);
    std::vector<std::string> want, got;
    for (size_t i = 0; i < x.size() && i < label.size(); ++i) {
      if (label[i] >= 0.5) want.push_back(class_name(names_, static_cast<int64_t>(i)));
      if (x[i] > 0) got.push_back(class_name(names_, static_cast<int64_t>(i)));
    }
    out.label = join(want, ", ");
    out.predicted = join(got, ", ");
  }

 private:
  std::vector<std::string> names_;
};

const TaskRegistration multilabel_row{{
    .name = "multilabel",
    .synonyms = {"multi_label_classification"},
    .labels = LabelForm::sets,
    .images = true,
    .named_classes = true,
    .head = "multilabel",
    .loss = "bce_logits",
    .metrics = {{"micro_f1"}, {"macro_f1"}, {"exact_match"}},
    .best = "micro_f1",
    .make_metrics = metrics_as<MultilabelMetrics>,
    .make_predictions = predictions_as<AnyClasses>,
    .make_error = error_as<SetError>,
}};

}  // namespace

}  // namespace amp
