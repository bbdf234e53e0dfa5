// Tasks: metrics for outputs in every layout, and the losses that belong to each task.
#include "trainer/tasks/task.h"

#include <catch2/catch_all.hpp>
#include <cmath>

#include "base/error.h"
#include "trainer/losses/loss_text.h"

using namespace amp;

namespace {
HostTensor floats(Dims d, std::vector<float> v) { return HostTensor::of<float>(std::move(d), v); }
HostTensor ints(Dims d, std::vector<int64_t> v) { return HostTensor::of<int64_t>(std::move(d), v); }
LossSpec loss(const std::string& text) { return parse_losses({text})[0]; }

double metric(Task task, const std::string& spec, const std::vector<HostTensor>& outputs, const HostTensor& label,
              const std::string& name, double mean_loss = 0) {
  const auto m = make_metrics(task, loss(spec));
  m->add(outputs, label);
  for (const auto& [known, value] : m->values(mean_loss)) {
    if (known == name) return value;
  }
  return -1;
}
}  // namespace

TEST_CASE("class metrics read rows, tokens and pixels") {
  CHECK(metric(Task::classification, "ce", {floats({2, 2}, {0, 1, 3, 2})}, ints({2}, {1, 1}), "accuracy") == 0.5);
  const HostTensor tokens = floats({1, 3, 2}, {0, 1, 1, 0, 0, 1});  // the predicted classes are 1 0 1
  CHECK(metric(Task::token, "ce", {tokens}, ints({1, 3}, {1, -100, 0}), "accuracy") == 0.5);
  // Position 0 predicts token 1, position 1 predicts token 0. The target of the last position is not known.
  CHECK(metric(Task::language, "causal_lm", {tokens}, ints({1, 3}, {0, 1, 0}), "accuracy") == 1);
  CHECK(metric(Task::language, "masked_lm", {tokens}, ints({1, 3}, {1, 1, 1}), "accuracy") == 2.0 / 3);
  CHECK(metric(Task::language, "masked_lm", {tokens}, ints({1, 3}, {1, 1, 1}), "perplexity", 2) == std::exp(2.0));
  const HostTensor image = floats({1, 2, 1, 3}, {5, 0, 0, 1, 1, 1});  // the predicted classes are 0 1 1
  CHECK(metric(Task::segmentation, "dice", {image}, ints({1, 1, 3}, {0, 1, 0}), "accuracy") == 2.0 / 3);
  CHECK(metric(Task::segmentation, "ce,ignore_index=9", {image}, ints({1, 1, 3}, {0, 1, 9}), "miou") == 1);
  const HostTensor mask = floats({1, 1, 1, 4}, {2, -1, 3, -3});  // the predicted bits are 1 0 1 0
  CHECK(metric(Task::segmentation, "bce", {mask}, ints({1, 1, 4}, {1, 1, 0, 0}), "miou") == 1.0 / 3);
  CHECK(metric(Task::segmentation, "bce", {mask}, floats({1, 1, 1, 4}, {1, 1, 0, 0}), "dice") == 0.5);
  CHECK(metric(Task::classification, "focal", {floats({4, 1}, {2, -1, 3, -3})}, ints({4}, {1, 1, 0, 0}), "accuracy") ==
        0.5);
}

TEST_CASE("spans, sets and numbers") {
  // Not 1..0, which ends before its start.
  const HostTensor start = floats({1, 3}, {0, 9, 1}), end = floats({1, 3}, {8, 1, 5});
  CHECK(metric(Task::span, "qa_span", {start, end}, ints({1, 2}, {1, 2}), "exact_match") == 1);
  const HostTensor sets = floats({2, 2}, {1, -1, 1, 1});
  CHECK(metric(Task::multilabel, "bce", {sets}, floats({2, 2}, {1, 0, 1, 0}), "exact_match") == 0.5);
  CHECK(metric(Task::multilabel, "bce", {sets}, floats({2, 2}, {1, 0, 1, 0}), "micro_f1") == Catch::Approx(0.8));
  CHECK(metric(Task::regression, "mse", {floats({2, 1}, {1, 3})}, floats({2}, {1, 1}), "mse") == 2);
  const HostTensor pairs = floats({4, 2}, {1, 0, 1, 0, 1, 0, 0, 2});  // the cosines of the two pairs are 1 and 0
  CHECK(metric(Task::regression, "cosine_mse", {pairs}, floats({2}, {1, 0.5}), "mae") == 0.25);
}

TEST_CASE("words that count, row by row, make the texts whose entities are counted") {
  const std::vector<std::string> names = {"B-x", "I-x", "O"};
  CHECK(best_metric(Task::token, names) == "entity_f1");
  CHECK(best_metric(Task::token, {"NN", "VB"}) == "accuracy");
  CHECK(make_metrics(Task::token, loss("ce"), {.classes = {"NN", "VB"}})->values(0).size() == 2);
  const auto m = make_metrics(Task::token, loss("ce"), {.classes = names});
  // The tags are B I and I O B.
  const HostTensor label = HostTensor::of<int64_t>({2, 4}, {-100, 0, -100, 1, 1, 2, 0, -100});
  std::vector<float> logits(24);
  const std::vector<size_t> predicted = {2, 0, 2, 1,
                                         // predicted: B I and I B B; correct entities are the first two and the last.
                                         1, 0, 0, 0};
  for (size_t i = 0; i < predicted.size(); ++i) logits[i * 3 + predicted[i]] = 1;
  m->add({floats({2, 4, 3}, logits)}, label);
  const MetricValues v = m->values(0);
  REQUIRE(v.size() == 5);
  CHECK(v[2].second == 3.0 / 4);  // precision
  CHECK(v[3].second == 1);        // recall
  CHECK(v[4].second == Catch::Approx(6.0 / 7));
}

TEST_CASE("every task has a loss that fits it, and metrics that are known") {
  for (const Task t : {Task::classification, Task::token, Task::language, Task::regression, Task::multilabel,
                       Task::span, Task::segmentation}) {
    INFO(name_of(t));
    const LossSpec s = loss(default_loss(t));
    CHECK(fits(t, s));
    CHECK(task_from_name(name_of(t)) == t);
    check_metric(t, best_metric(t), "");
    const auto m = make_metrics(t, s, {.classes = {"B-x", "I-x", "O"}});
    const MetricValues values = m->values(1);
    const std::vector<std::string> names = metric_names(t);
    REQUIRE(values.size() + 1 == names.size());
    for (size_t i = 0; i < values.size(); ++i) CHECK(values[i].first == names[i + 1]);
  }
  CHECK_FALSE(fits(Task::regression, loss("ce")));
  CHECK_FALSE(fits(Task::span, loss("mse")));
  CHECK(fits(Task::token, loss("ce")));
  CHECK(fits(Task::segmentation, loss("bce")));
  CHECK(lower_is_better("mae"));
  CHECK_FALSE(lower_is_better("pearson"));
  CHECK_THROWS_AS(check_metric(Task::none, "accuracy", "`require` accuracy>=1"), Error);
}
