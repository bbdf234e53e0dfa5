// Regression: predicts numbers for each row, or the cosine of two embeddings if the loss compares pairs.
// Metrics, predictions and errors (the distance to the label) are in the units before the target's transform.
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "trainer/losses/loss.h"
#include "trainer/metrics/metric.h"
#include "trainer/metrics/metrics.h"
#include "trainer/tasks/task_rule.h"

namespace amp {

namespace {

class RegressionMetrics final : public TaskMetrics {
 public:
  RegressionMetrics(const LossSpec& loss, const MetricContext& context)
      : pairs_(loss_rule(loss.kind).embeddings), target_(context.target) {}
  void add(const std::vector<HostTensor>& outputs, const HostTensor& label, std::span<const int64_t>) override {
    std::vector<double> x = outputs.at(0).to_doubles(), wanted = label.to_doubles();
    if (pairs_) x = pair_cosines(x, outputs[0].dims().back());
    for (auto* numbers : {&x, &wanted}) {
      for (double& v : *numbers) v = target_.inverse(v);
    }
    metric_.add(x, wanted);
  }
  MetricValues values(double) const override {
    MetricValues out = {{"mse", metric_.mse()},
                        {"mae", metric_.mae()},
                        {"pearson", metric_.pearson()},
                        {"spearman", metric_.spearman()}};
    for (const NumberMetric& m : number_metrics())
      out.emplace_back(m.name, m.value({metric_.predicted(), metric_.wanted()}));
    return out;
  }

 private:
  bool pairs_;
  TargetTransform target_;
  Regression metric_;
};

class Numbers final : public Predictions {
 public:
  Numbers(const LossSpec& loss, const PredictionContext& context)
      : pairs_(loss_rule(loss.kind).embeddings), target_(context.target), rows_(context.rows) {}

  void add(const std::vector<HostTensor>& outputs, const Batch& batch) override {
    std::vector<double> x = outputs.at(0).to_doubles();
    const int64_t width = pairs_ ? 1 : width_of(outputs[0], batch.rows);
    if (pairs_) x = pair_cosines(x, outputs[0].dims().back());
    if (values_.empty()) {
      width_ = width;
      values_.resize(static_cast<size_t>(rows_ * width));
    }
    if (width != width_ || static_cast<int64_t>(x.size()) != batch.rows * width) bug("batches of different widths");
    for (int64_t r = 0; r < batch.rows; ++r) {
      for (int64_t i = 0; i < width; ++i) {
        values_[static_cast<size_t>(batch.samples[static_cast<size_t>(r)] * width + i)] =
            target_.inverse(x[static_cast<size_t>(r * width + i)]);
      }
    }
  }

  std::vector<PredictedField> row(int64_t row) const override {
    if (width_ == 1) return {{"prediction", number(values_[static_cast<size_t>(row)])}};
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (int64_t i = 0; i < width_; ++i) all.push_back(number(values_[static_cast<size_t>(row * width_ + i)]));
    return {{"prediction", std::move(all)}};
  }

  std::vector<NamedTensor> tensors() const override {
    const Dims dims = width_ == 1 ? Dims{rows_} : Dims{rows_, width_};
    return {{"prediction", HostTensor::of<double>(dims, values_).cast(DType::f32)}};
  }

 private:
  bool pairs_;
  TargetTransform target_;
  int64_t rows_, width_ = 0;
  std::vector<double> values_;
};

class DistanceError final : public PerSampleError {
 public:
  DistanceError(const LossSpec& loss, const MetricContext& context)
      : pairs_(loss_rule(loss.kind).embeddings), target_(context.target) {}

  double error(const SampleRow& r) const override {
    const std::vector<double> x = numbers_of(r), label = labels_of(r);
    double square = 0;
    for (size_t i = 0; i < x.size() && i < label.size(); ++i) {
      const double d = target_.inverse(x[i]) - target_.inverse(label[i]);
      square += d * d;
    }
    return std::isnan(square) ? kInfinity : std::sqrt(square);
  }

  void describe(const SampleRow& r, SampleRecord& out) const override {
    const auto text = [&](const std::vector<double>& values) {
      std::vector<std::string> parts;
      for (const double v : values) parts.push_back(cat(shown(target_.inverse(v))));
      return join(parts, ", ");
    };
    out.label = text(labels_of(r));
    out.predicted = text(numbers_of(r));
  }

 private:
  std::vector<double> numbers_of(const SampleRow& r) const {
    const std::span<const float> x = values_of(r);  // a pair consists of two consecutive rows
    const std::vector<double> wide(x.begin(), x.end());
    return pairs_ ? pair_cosines(wide, r.outputs[0].dims().back()) : wide;
  }

  bool pairs_;
  TargetTransform target_;
};

std::vector<std::string> number_metric_names() {
  std::vector<std::string> names;
  for (const NumberMetric& m : number_metrics()) names.push_back(m.name);
  return names;
}

const TaskRegistration regression_row{{
    .name = "regression",
    .synonyms = {"stsb"},
    .labels = LabelForm::numbers,
    .images = true,
    .tables = true,
    .head = "regression",
    .loss = "mse",
    .metrics = {{"mse", true}, {"mae", true}, {"pearson"}, {"spearman"}},
    .more_metrics = number_metric_names,
    .make_metrics = metrics_as<RegressionMetrics>,
    .make_predictions = predictions_as<Numbers>,
    .make_error = error_as<DistanceError>,
}};

}  // namespace

}  // namespace amp
