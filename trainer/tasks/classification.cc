// Classification: predicts one class for each row, of texts, images and tables.
// Metrics are accuracy, macro F1 and the rows of trainer/metrics/; the error of a sample is -log p of its label.
#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "trainer/metrics/metric.h"
#include "trainer/tasks/class_metrics.h"
#include "trainer/tasks/probabilities.h"
#include "trainer/tasks/task_rule.h"

namespace amp {

namespace {

class ClassificationMetrics final : public ClassMetrics {
 public:
  ClassificationMetrics(const LossSpec& loss, const MetricContext& context)
      : ClassMetrics(loss), names_(context.classes) {}

  MetricValues values(double) const override {
    MetricValues out = {{"accuracy", classes().accuracy()}, {"macro_f1", classes().macro_f1()}};
    for (const ClassMetric& m : class_metrics()) {
      if (!m.ordered && m.applies(scores_.classes)) out.emplace_back(m.name, m.value(scores_));
    }
    return out;
  }

  std::string details() const override { return class_details(scores_, names_); }

 private:
  // Stores the probabilities if the outputs have one row of logits per label.
  void counted(const HostTensor& out, const HostTensor&, int64_t classes, const std::vector<int64_t>& ids,
               const std::vector<int64_t>& wanted) override {
    scores_.classes = classes;
    const bool rows = out.rank() > 0 &&
                      (out.dims().back() == classes || out.numel() == static_cast<int64_t>(ids.size())) &&
                      (out.rank() < 3 || out.numel() == static_cast<int64_t>(ids.size()) * out.dims().back());
    const std::vector<float> logits = rows ? floats(out) : std::vector<float>();
    add_class_scores(scores_, logits, wanted, ids, loss_.ignore_index(), loss_.kind == "nll_probs");
  }

  void add_binary(const std::vector<float>& logits, const std::vector<int64_t>& wanted) override {
    ClassMetrics::add_binary(logits, wanted);
    scores_.classes = 2;
    add_class_scores(scores_, logits, wanted, yes_or_no(logits), loss_.ignore_index(), loss_.kind == "nll_probs");
  }

  ClassScores scores_;
  std::vector<std::string> names_;
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
  // A single logit distinguishes two classes.
  int64_t classes_of(int64_t width) const override { return std::max<int64_t>(width, 2); }

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

  // Returns the class with the largest probability; -1 if the row contains NaN.
  int64_t largest(int64_t row) const {
    const std::span<const double> p = of(row);
    if (std::any_of(p.begin(), p.end(), [](double v) { return std::isnan(v); })) return -1;
    return std::max_element(p.begin(), p.end()) - p.begin();
  }
};

class ClassError final : public PerSampleError {
 public:
  ClassError(const LossSpec& loss, const MetricContext& context)
      : given_(loss.kind.find("prob") != std::string::npos), names_(context.classes) {}

  double error(const SampleRow& r) const override {
    const std::vector<double> p = probabilities_of(r);
    const double label = labels_of(r).at(0);
    if (label < 0 || label >= static_cast<double>(p.size())) return kNone;
    const auto want = static_cast<size_t>(label);
    if (std::any_of(p.begin(), p.end(), [](double v) { return std::isnan(v); })) return kInfinity;
    return largest(p) == want ? kNone : minus_log(p[want]);
  }

  void describe(const SampleRow& r, SampleRecord& out) const override {
    const std::vector<double> p = probabilities_of(r);
    const size_t best = largest(p);
    out.label = class_name(names_, static_cast<int64_t>(labels_of(r).at(0)));
    out.predicted = class_name(names_, static_cast<int64_t>(best));
    out.probability = p[best];
  }

 private:
  std::vector<double> probabilities_of(const SampleRow& r) const {
    const std::span<const float> x = values_of(r);
    if (x.size() == 1) {
      const double yes = given_ ? x[0] : math::sigmoid(x[0]);
      return {1 - yes, yes};
    }
    std::vector<double> p(x.begin(), x.end());
    if (!given_) softmax(x, p);
    return p;
  }

  bool given_;  // true if the outputs are probabilities
  std::vector<std::string> names_;
};

std::vector<std::string> class_metric_names() {
  std::vector<std::string> names;
  for (const ClassMetric& m : class_metrics()) {
    if (!m.ordered) names.push_back(m.name);
  }
  return names;
}

const TaskRegistration classification_row{{
    .name = "classification",
    .synonyms = {"single_label_classification", "cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst2", "wnli", "xnli"},
    .labels = LabelForm::classes,
    .images = true,
    .tables = true,
    .named_classes = true,
    .head = "classification",
    .outputs = ClassOutputs::one_each_or_yes_no,
    .loss = "cross_entropy",
    .losses_of = {Task::language},
    .more_losses = {"bce_logits"},
    .metrics = {{"accuracy"}, {"macro_f1"}},
    .more_metrics = class_metric_names,
    .best = "accuracy",
    .metrics_from = MetricsFrom::data_sans_loss,
    .make_metrics = metrics_as<ClassificationMetrics>,
    .make_predictions = predictions_as<OneClass>,
    .make_error = error_as<ClassError>,
}};

}  // namespace

}  // namespace amp
