// Metrics of classes, probabilities and numbers against scikit-learn (tests/data/trainer/make_metrics_scores.py).
#include <algorithm>
#include <catch2/catch_all.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support.h"
#include "trainer/metrics/metric.h"
#include "trainer/tasks/task.h"

using namespace amp;
using nlohmann::json;

namespace {

json golden() {
  std::ifstream in(test::test_data("trainer/metrics_scores.json"));
  REQUIRE(in.good());
  return json::parse(in);
}

void compare(const MetricValues& got, const json& want) {
  size_t found = 0;
  for (const auto& [name, value] : got) {
    if (!want.contains(name)) continue;
    ++found;
    INFO(name << ": " << value << ", wanted " << want[name]);
    if (want[name].is_null()) {
      CHECK(std::isnan(value));
    } else {
      CHECK(std::abs(value - want[name].get<double>()) <= 1e-12 * std::max(1.0, std::abs(want[name].get<double>())));
    }
  }
  CHECK(found == want.size());
}

LossSpec loss(const std::string& kind) {
  LossSpec s;
  s.kind = kind;
  return s;
}

}  // namespace

TEST_CASE("metrics of classes are scikit-learn's") {
  const json cases = golden()["classes"];
  for (const json& c : cases) {
    const auto classes = c["classes"].get<int64_t>();
    const auto labels = c["labels"].get<std::vector<int64_t>>();
    const auto logits = c["logits"].get<std::vector<float>>();
    INFO(classes << " classes, " << labels.size() << " rows");
    const auto metrics = make_metrics(Task::classification, loss("cross_entropy"), {.classes = {"no", "yes"}});
    for (size_t at = 0; at < labels.size(); at += 7) {  // in batches
      const size_t n = std::min<size_t>(7, labels.size() - at);
      const auto first = logits.begin() + static_cast<long>(at) * classes;
      metrics->add(
          {HostTensor::of<float>({static_cast<int64_t>(n), classes}, {first, first + static_cast<long>(n) * classes})},
          HostTensor::of<int64_t>({static_cast<int64_t>(n)}, {labels.begin() + static_cast<long>(at),
                                                              labels.begin() + static_cast<long>(at + n)}));
    }
    compare(metrics->values(0), c["metrics"]);
    const json details = json::parse(metrics->details());
    CHECK(details["confusion_matrix"] == c["confusion_matrix"]);
    for (size_t k = 0; k < c["per_class"].size(); ++k) {
      const json& got = details["per_class"][k < 2 ? (k ? "yes" : "no") : std::to_string(k)];
      for (const auto& [name, value] : c["per_class"][k].items()) {
        INFO("class " << k << ", " << name);
        CHECK(std::abs(got[name].get<double>() - value.get<double>()) <= 1e-12);
      }
    }
  }
}

TEST_CASE("metrics whose value the number of classes decides are left out, and refused as a gate") {
  for (const int64_t classes : {2, 3, 5, 6}) {
    const auto metrics = make_metrics(Task::classification, loss("cross_entropy"), {});
    metrics->add({HostTensor::of<float>({1, classes}, std::vector<float>(static_cast<size_t>(classes), 1))},
                 HostTensor::of<int64_t>({1}, {1}));
    const MetricValues values = metrics->values(0);
    const auto has = [&](const char* name) {
      return std::any_of(values.begin(), values.end(), [&](const auto& v) { return v.first == name; });
    };
    CHECK(has("top5_accuracy") == (classes > 5));
    CHECK(has("binary_f1") == (classes == 2));
    CHECK(has("mcc"));
  }
  CHECK_THROWS_AS(require_applies("top5_accuracy", 5, "`require`"), Error);
  CHECK_THROWS_AS(require_applies("binary_f1", 3, "`require`"), Error);
  CHECK_NOTHROW(require_applies("top5_accuracy", 6, "`require`"));
  CHECK_NOTHROW(require_applies("top5_accuracy", 0, "`require`"));  // the number of classes is not known yet
}

TEST_CASE("of equal probabilities, the higher class is ranked first for the top five") {
  // sklearn.metrics.top_k_accuracy_score(y, p, k=5) is 0.5 for these rows: class 1 is the sixth of six equal ones,
  // class 2 the fifth.
  const auto metrics = make_metrics(Task::classification, loss("cross_entropy"), {});
  metrics->add({HostTensor::of<float>({2, 7}, {0, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1})},
               HostTensor::of<int64_t>({2}, {1, 2}));
  const MetricValues values = metrics->values(0);
  const auto top5 =
      std::find_if(values.begin(), values.end(), [](const auto& v) { return v.first == "top5_accuracy"; });
  REQUIRE(top5 != values.end());
  CHECK(top5->second == 0.5);
}

TEST_CASE("metrics of numbers are scikit-learn's") {
  const json numbers = golden()["numbers"];
  for (const json& c : numbers) {
    const auto wanted = c["wanted"].get<std::vector<double>>(), predicted = c["predicted"].get<std::vector<double>>();
    const auto n = static_cast<int64_t>(wanted.size());
    const auto metrics = make_metrics(Task::regression, loss("mse"));
    metrics->add({HostTensor::of<double>({n}, predicted)}, HostTensor::of<double>({n}, wanted));
    compare(metrics->values(0), c["metrics"]);
  }
}

TEST_CASE("metrics that the data do not define") {
  const auto metrics = make_metrics(Task::classification, loss("cross_entropy"));
  for (const auto& [name, value] : metrics->values(0)) CHECK((std::isnan(value) || value == 0));
  CHECK(metrics->details().empty());
  // Ignored labels do not count. A NaN counts as a wrong answer without a probability.
  const std::vector<float> x = {1, 2, NAN, 0, 3, 1};
  metrics->add({HostTensor::of<float>({3, 2}, x)}, HostTensor::of<int64_t>({3}, {1, 0, -100}));
  for (const auto& [name, value] : metrics->values(0)) {
    if (name == "accuracy") CHECK(value == 0.5);
    if (name == "auroc" || name == "ece") CHECK(std::isnan(value));
  }
  CHECK(json::parse(metrics->details())["confusion_matrix"] == json::parse("[[0,0],[0,1]]"));
  CHECK(lower_is_better("log_loss"));
  CHECK(lower_is_better("rmse"));
  CHECK_FALSE(lower_is_better("auroc"));
  // A single logit is a binary class.
  const auto binary = make_metrics(Task::classification, loss("focal"));
  binary->add({HostTensor::of<float>({4, 1}, {2, -1, 3, -3})}, HostTensor::of<int64_t>({4}, {1, 1, 0, 0}));
  for (const auto& [name, value] : binary->values(0)) {
    if (name == "auroc") CHECK(value == 0.5);
    if (name == "binary_f1") CHECK(value == 0.5);
  }
}
