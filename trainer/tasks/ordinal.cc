// Ordinal regression: classes in an order, such as ratings from 1 to 5 or low, middle, high. A model has K - 1 outputs
// for K classes; output k is the logit of "the label is above class k". The predicted class is the number of positive
// logits (Cao, Mirjalili, Raschka 2020, arXiv:1901.07884; coral-pytorch). The error of a sample is the distance of its
// predicted class from its label, in classes.
#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "trainer/metrics/metric.h"
#include "trainer/tasks/class_metrics.h"
#include "trainer/tasks/probabilities.h"
#include "trainer/tasks/task_rule.h"

namespace amp {

namespace {

// Returns the number of positive logits, or -1 if a logit is NaN.
template <class T>
int64_t ordinal_class(std::span<const T> logits) {
  int64_t above = 0;
  for (const T x : logits) {
    if (std::isnan(x)) return -1;
    above += x > 0;
  }
  return above;
}

class OrdinalMetrics final : public ClassMetrics {
 public:
  OrdinalMetrics(const LossSpec& loss, const MetricContext& context) : ClassMetrics(loss), names_(context.classes) {}

  void add(const std::vector<HostTensor>& outputs, const HostTensor& label, std::span<const int64_t>) override {
    const std::vector<int64_t> wanted = whole_numbers(label);
    if (wanted.empty()) return;
    const std::vector<float> logits = floats(outputs.at(0));
    const size_t thresholds = logits.size() / wanted.size();
    std::vector<int64_t> predicted;
    for (size_t r = 0; r < wanted.size(); ++r)
      predicted.push_back(ordinal_class(std::span(logits).subspan(r * thresholds, thresholds)));
    scores_.classes = static_cast<int64_t>(thresholds) + 1;
    count(scores_.classes, predicted, wanted);
    add_class_scores(scores_, {}, wanted, predicted, loss_.ignore_index(), false);
  }

  MetricValues values(double) const override {
    MetricValues out = {{"accuracy", classes().accuracy()}};
    for (const ClassMetric& m : class_metrics()) {
      if (m.ordered) out.emplace_back(m.name, m.value(scores_));
    }
    return out;
  }

  std::string details() const override { return class_details(scores_, names_); }

 private:
  std::vector<std::string> names_;
  ClassScores scores_;
};

// Predicts the class, and for each class except the highest the probability that the label is above that class.
class OrdinalPredictions final : public Probabilities {
 public:
  using Probabilities::Probabilities;

  std::vector<PredictedField> row(int64_t row) const override {
    nlohmann::ordered_json above = nlohmann::ordered_json::object();
    const std::span<const double> logits = of(row);
    for (size_t k = 0; k < logits.size(); ++k)
      above[class_name(names_, static_cast<int64_t>(k))] = number(math::sigmoid(logits[k]));
    const int64_t predicted = ordinal_class(logits);
    if (predicted < 0) return {{"predicted_label", nullptr}, {"probability_above", std::move(above)}};
    return {{"predicted_label", class_name(names_, predicted)}, {"probability_above", std::move(above)}};
  }

  std::vector<NamedTensor> tensors() const override {
    std::vector<int64_t> labels;
    for (int64_t r = 0; r < rows_; ++r) labels.push_back(ordinal_class(of(r)));
    std::vector<double> above;
    for (const double x : values_) above.push_back(math::sigmoid(x));
    return {{"predicted_label", HostTensor::of<int64_t>({rows_}, labels)},
            {"probability_above", HostTensor::of<double>({rows_, classes_}, above).cast(DType::f32)}};
  }

 private:
  void fill(std::span<const float> x, std::span<double> logits) const override {
    std::copy(x.begin(), x.end(), logits.begin());
  }
};

class OrdinalError final : public PerSampleError {
 public:
  OrdinalError(const LossSpec&, const MetricContext& context) : names_(context.classes) {}

  double error(const SampleRow& r) const override {
    const int64_t predicted = ordinal_class(values_of(r));
    const double label = labels_of(r).at(0);
    if (label < 0) return kNone;
    if (predicted < 0) return kInfinity;
    const double distance = std::abs(static_cast<double>(predicted) - label);
    return distance > 0 ? distance : kNone;
  }

  void describe(const SampleRow& r, SampleRecord& out) const override {
    out.label = class_name(names_, static_cast<int64_t>(labels_of(r).at(0)));
    out.predicted = class_name(names_, ordinal_class(values_of(r)));
  }

 private:
  std::vector<std::string> names_;
};

const TaskRegistration ordinal_row{{
    .name = "ordinal",
    .synonyms = {"ordinal_regression"},
    .labels = LabelForm::classes,
    .images = true,
    .tables = true,
    .named_classes = true,
    .ordered_classes = true,
    .head = "classification",
    .outputs = ClassOutputs::thresholds,
    .loss = "coral",
    .metrics = {{"accuracy"}, {"mae", true}, {"quadratic_kappa"}},
    .best = "quadratic_kappa",
    .make_metrics = metrics_as<OrdinalMetrics>,
    .make_predictions = predictions_as<OrdinalPredictions>,
    .make_error = error_as<OrdinalError>,
}};

}  // namespace

}  // namespace amp
