// Labels and probabilities: one class a row, or any number of them.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/math.h"
#include "trainer/losses/loss.h"
#include "trainer/metrics/metrics.h"
#include "trainer/predictions/predictions.h"

namespace amp {

namespace {

class Probabilities : public Predictions {
 public:
  Probabilities(const LossSpec& loss, const PredictionContext& context)
      : loss_(loss), rows_(context.rows), names_(context.classes) {}

  void add(const std::vector<HostTensor>& outputs, const Batch& batch) override {
    const HostTensor out = outputs.at(0).cast(DType::f32);
    const int64_t width = width_of(out, batch.rows);
    const int64_t classes = classes_of(width);
    if (classes_ == 0) {
      classes_ = classes;
      values_.resize(static_cast<size_t>(rows_ * classes));
    }
    if (classes != classes_) bug("batches of different numbers of classes");
    for (int64_t r = 0; r < batch.rows; ++r) {
      const std::span<const float> x(out.as<float>() + r * width, static_cast<size_t>(width));
      fill(x, std::span(values_).subspan(static_cast<size_t>(batch.samples[static_cast<size_t>(r)] * classes),
                                         static_cast<size_t>(classes)));
    }
  }

 protected:
  virtual int64_t classes_of(int64_t width) const { return width; }
  virtual void fill(std::span<const float> x, std::span<double> p) const = 0;

  std::span<const double> of(int64_t row) const {
    return std::span(values_).subspan(static_cast<size_t>(row * classes_), static_cast<size_t>(classes_));
  }
  nlohmann::ordered_json by_name(int64_t row) const {
    nlohmann::ordered_json out = nlohmann::ordered_json::object();
    const std::span<const double> p = of(row);
    for (int64_t c = 0; c < classes_; ++c) out[class_name(names_, c)] = number(p[static_cast<size_t>(c)]);
    return out;
  }
  NamedTensor probabilities() const {
    return {"probabilities", HostTensor::of<double>({rows_, classes_}, values_).cast(DType::f32)};
  }

  const LossSpec loss_;
  const int64_t rows_;
  const std::vector<std::string> names_;
  int64_t classes_ = 0;
  std::vector<double> values_;  // (rows, classes)
};

class OneClass final : public Probabilities {
 public:
  using Probabilities::Probabilities;

  std::vector<PredictedField> row(int64_t row) const override {
    const int64_t best = largest(row);
    if (best < 0) return {{"predicted_label", nullptr}, {"probability", nullptr}, {"probabilities", by_name(row)}};
    return {{"predicted_label", class_name(names_, best)},
            {"probability", number(of(row)[static_cast<size_t>(best)])},
            {"probabilities", by_name(row)}};
  }

  std::vector<NamedTensor> tensors() const override {
    std::vector<int64_t> labels;
    for (int64_t r = 0; r < rows_; ++r) labels.push_back(largest(r));
    return {{"predicted_label", HostTensor::of<int64_t>({rows_}, labels)}, probabilities()};
  }

 private:
  int64_t classes_of(int64_t width) const override { return std::max<int64_t>(width, 2); }  // one logit: yes or no

  void fill(std::span<const float> x, std::span<double> p) const override {
    const bool probabilities = loss_.kind == "nll_probs";
    if (x.size() == 1) {
      p[1] = probabilities ? x[0] : math::sigmoid(x[0]);
      p[0] = 1 - p[1];
    } else if (probabilities) {
      std::copy(x.begin(), x.end(), p.begin());
    } else {
      softmax(x, p);
    }
  }

  int64_t largest(int64_t row) const {  // -1 where a NaN stands
    const std::span<const double> p = of(row);
    if (std::any_of(p.begin(), p.end(), [](double v) { return std::isnan(v); })) return -1;
    return std::max_element(p.begin(), p.end()) - p.begin();
  }
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

const PredictionRegistration one_class_predictions{Task::classification, make<OneClass>};
const PredictionRegistration any_classes_predictions{Task::multilabel, make<AnyClasses>};

}  // namespace

}  // namespace amp
