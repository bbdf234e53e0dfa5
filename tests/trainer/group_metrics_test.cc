// Metrics of groups of samples, against scikit-learn's (tests/data/trainer/make_group_metrics.py).
#include "trainer/tasks/group_metrics.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/errors.h"
#include "tests/support.h"
#include "trainer/losses/loss_text.h"

using namespace amp;
using namespace amp::test;
using nlohmann::json;

namespace {

GroupMetrics::Make classification() {
  return [] { return make_metrics(Task::classification, parse_losses({"ce"})[0]); };
}

double value(const GroupValues& g, const std::string& name) {
  for (const auto& [known, v] : g.values) {
    if (known == name) return v;
  }
  return -1;
}

}  // namespace

TEST_CASE("metrics of groups are scikit-learn's, however samples lie in batches", "[metrics]") {
  const json golden = json::parse(std::ifstream(test_data("trainer/group_metrics.json")));
  const auto logits = golden["logits"].get<std::vector<float>>();
  const auto labels = golden["labels"].get<std::vector<int64_t>>();
  const SampleGroups groups{"language", golden["names"].get<std::vector<std::string>>(),
                            golden["groups"].get<std::vector<int32_t>>()};
  for (const int64_t rows : {60, 7, 1}) {
    GroupMetrics metrics(groups, classification());
    for (int64_t at = 0; at < 60; at += rows) {  // in reverse order of the samples
      std::vector<float> x;
      std::vector<int64_t> y, samples;
      for (int64_t s = at; s < std::min<int64_t>(60, at + rows); ++s) {
        const auto i = static_cast<size_t>(59 - s);
        samples.push_back(59 - s);
        y.push_back(labels[i]);
        x.insert(x.end(), &logits[3 * i], &logits[3 * i] + 3);
      }
      const auto n = static_cast<int64_t>(samples.size());
      metrics.add({HostTensor::of<float>({n, 3}, x)}, HostTensor::of<int64_t>({n}, y), samples);
    }
    const std::vector<GroupValues> found = metrics.values();
    REQUIRE(found.size() == golden["expected"].size());
    for (const GroupValues& g : found) {
      INFO(g.name << ", " << rows << " rows a batch");
      const json& want = golden["expected"][g.name];
      CHECK(g.samples == want["samples"].get<int64_t>());
      CHECK(value(g, "accuracy") == Catch::Approx(want["accuracy"].get<double>()).epsilon(1e-12));
      CHECK(value(g, "macro_f1") == Catch::Approx(want["macro_f1"].get<double>()).epsilon(1e-12));
    }
    const json told = json::parse(add_groups(R"({"x": 1})", "language", found));
    CHECK(told["x"] == 1);
    CHECK(told["groups"]["language"]["zh"]["samples"] == golden["expected"]["zh"]["samples"]);
  }
}

TEST_CASE("a table of groups has a line for each, and columns that stand below each other", "[metrics]") {
  const std::vector<std::string> lines = group_table(
      "land", {{"ä", 5, {{"accuracy", 0.25}, {"macro_f1", 0.5}}}, {"long", 12, {{"accuracy", 1}, {"macro_f1", 0}}}}, 1);
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] == "land  samples  accuracy");
  CHECK(lines[1] == "ä           5    0.2500");
  CHECK(lines[2] == "long       12    1.0000");
  CHECK(group_table("land", {}, 1).empty());
}

TEST_CASE("outputs without a row for each sample have no metrics of groups", "[metrics]") {
  const SampleGroups groups{"g", {"a"}, {0, 0}};
  GroupMetrics metrics(groups, classification());
  expect_error(
      "E_GROUPS", "no row for each sample",
      [&] {
        metrics.add({HostTensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6})}, HostTensor::of<int64_t>({2}, {0, 1}),
                    std::vector<int64_t>{0, 1});
      },
      Exit::usage);
}
