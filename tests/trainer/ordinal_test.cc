// Ordinal regression: metrics against scikit-learn (tests/data/trainer/make_ordinal.py), predictions and errors of
// samples. The loss and its gradients are compared with PyTorch in losses_test.cc.
#include <catch2/catch_all.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tests/support.h"
#include "trainer/losses/loss_text.h"
#include "trainer/metrics/metric.h"
#include "trainer/tasks/task_rule.h"

using namespace amp;
using nlohmann::json;

namespace {

const Task kOrdinal("ordinal");

LossSpec coral() { return parse_losses({"coral"})[0]; }

HostTensor ids(const std::vector<int64_t>& v) { return HostTensor::of<int64_t>({std::ssize(v)}, v); }

HostTensor logits(const std::vector<float>& x, int64_t thresholds) {
  return HostTensor::of<float>({std::ssize(x) / thresholds, thresholds}, x);
}

}  // namespace

TEST_CASE("metrics of ordered classes are scikit-learn's", "[ordinal]") {
  std::ifstream in(test::test_data("trainer/ordinal.json"));
  for (const json& c : json::parse(in)) {
    const auto labels = c["labels"].get<std::vector<int64_t>>();
    const auto x = c["logits"].get<std::vector<float>>();
    const auto thresholds = c["classes"].get<int64_t>() - 1;
    INFO(thresholds + 1 << " classes");
    const auto metrics = make_metrics(kOrdinal, coral());
    for (size_t at = 0; at < labels.size(); at += 7) {  // in batches
      const size_t to = std::min(labels.size(), at + 7), k = static_cast<size_t>(thresholds);
      metrics->add({logits({x.begin() + static_cast<long>(at * k), x.begin() + static_cast<long>(to * k)}, thresholds)},
                   ids({labels.begin() + static_cast<long>(at), labels.begin() + static_cast<long>(to)}));
    }
    // The metrics are sums of integers in fp64 and one division, so 1e-12 allows thousands of rounding errors.
    for (const auto& [name, value] : metrics->values(0)) {
      INFO(name << ": " << value);
      CHECK(std::abs(value - c["metrics"].at(name).get<double>()) <= 1e-12);
    }
    // The predicted classes are those of the golden file.
    PredictionContext context;
    context.rows = std::ssize(labels);
    const auto predictions = make_predictions(kOrdinal, coral(), context);
    Batch batch;
    batch.rows = context.rows;
    for (int64_t r = 0; r < context.rows; ++r) batch.samples.push_back(r);
    predictions->add({logits(x, thresholds)}, batch);
    CHECK(predictions->tensors().at(0).tensor.to_ints() == c["predicted"].get<std::vector<int64_t>>());
  }
}

TEST_CASE("ordered classes without rows, with ignored labels and NaN", "[ordinal]") {
  const auto metrics = make_metrics(kOrdinal, coral());
  for (const auto& [name, value] : metrics->values(0)) CHECK((std::isnan(value) || value == 0));
  metrics->add({logits({1, 1, NAN, 0, 1, -1, -1, -1}, 2)}, ids({2, 1, -100, 1}));
  const MetricValues v = metrics->values(0);
  CHECK(v[0] == std::pair<std::string, double>("accuracy", 1.0 / 3));  // a NaN counts as a wrong prediction
  CHECK(v[1] == std::pair<std::string, double>("mae", 0.5));           // a NaN has no distance to its label
  CHECK_THROWS_AS(metrics->add({logits({1, 1}, 2)}, ids({3})), Error);
}

TEST_CASE("predictions and errors of ordered classes", "[ordinal]") {
  PredictionContext context;
  context.rows = 2;
  context.classes = {"low", "middle", "high"};
  const auto predictions = make_predictions(kOrdinal, coral(), context);
  Batch batch;
  batch.rows = 2;
  batch.samples = {1, 0};
  predictions->add({logits({2, -2, NAN, 0}, 2)}, batch);
  const std::vector<PredictedField> row = predictions->row(1);
  CHECK(row.at(0).value == "middle");
  CHECK(row.at(1).name == "probability_above");
  CHECK(row[1].value["low"].get<double>() == Catch::Approx(1 / (1 + std::exp(-2.0))));
  CHECK(row[1].value["middle"].get<double>() == Catch::Approx(1 / (1 + std::exp(2.0))));
  CHECK(predictions->row(0).at(0).value.is_null());

  const auto error = make_sample_error(kOrdinal, coral(), {.classes = context.classes});
  const std::vector<HostTensor> outputs = {logits({2, 1, 2, -1, NAN, 0}, 2)};
  const HostTensor label = ids({0, 1, 1});
  const auto row_of = [&](int64_t r) { return SampleRow{outputs, label, r, 3, r}; };
  CHECK(error->error(row_of(0)) == 2);
  CHECK(error->error(row_of(1)) == PerSampleError::kNone);
  CHECK(error->error(row_of(2)) == PerSampleError::kInfinity);
  SampleRecord record;
  error->describe(row_of(0), record);
  CHECK(record.label == "low");
  CHECK(record.predicted == "high");
}

TEST_CASE("heads of ordered classes have an output for each threshold", "[ordinal]") {
  const TaskRule& rule = task_rule(kOrdinal);
  CHECK(rule.outputs_for(5) == 4);
  CHECK(rule.classes_of(4) == 5);
  CHECK((rule.outputs_for(0) == 0 && rule.classes_of(0) == 0));
  CHECK(lower_is_better("mae"));
  CHECK_FALSE(lower_is_better("quadratic_kappa"));
  for (const std::string& name : metric_names(Task::classification)) CHECK(name != "quadratic_kappa");
}
