// Metrics of tasks against scikit-learn and scipy (metrics.json, metrics_tasks.json, made by make_metrics.py), in
// batches of different sizes. Also ignored labels, ties and NaN.
#include "trainer/metrics/metrics.h"

#include <catch2/catch_all.hpp>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tests/support.h"

using namespace amp;

TEST_CASE("accuracy and macro-F1 equal scikit-learn's, however the items are batched") {
  std::ifstream f(test::test_data("trainer/metrics.json"));
  for (const auto& c : nlohmann::json::parse(f)) {
    const auto labels = c.at("labels").get<std::vector<int64_t>>();
    const auto predicted = c.at("predicted").get<std::vector<int64_t>>();
    for (const size_t batch : {size_t(1), size_t(7), labels.size()}) {
      Classification m(c.at("classes"));
      for (size_t i = 0; i < labels.size(); i += batch) {
        const size_t n = std::min(batch, labels.size() - i);
        m.add(std::span(predicted).subspan(i, n), std::span(labels).subspan(i, n));
      }
      CHECK(m.count() == static_cast<int64_t>(labels.size()));
      CHECK(m.accuracy() == Catch::Approx(c.at("accuracy").get<double>()).epsilon(1e-14));
      CHECK(m.macro_f1() == Catch::Approx(c.at("macro_f1").get<double>()).epsilon(1e-14));
    }
  }
}

TEST_CASE("ignored labels do not count, impossible ones are data errors") {
  Classification m(2);
  const std::vector<int64_t> predicted{0, 1, 1}, labels{0, -100, 0}, bad{0, 2, 0};
  m.add(predicted, labels);
  CHECK(m.count() == 2);
  CHECK(m.accuracy() == 0.5);
  try {
    m.add(predicted, bad);
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.exit() == Exit::data);
    CHECK(e.id() == "E_DATA_LABEL");
  }
}

TEST_CASE("argmax takes the first of equals, and no class of a row with a NaN") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x{1, 3, 3, /**/ nan, 0, 0, /**/ 0, 0, nan, /**/ -3, -2, -5, /**/ 2, 1, 0};
  CHECK(argmax_rows(x.data(), 5, 3) == std::vector<int64_t>{1, -1, -1, 1, 0});
  Classification m(3);
  const std::vector<int64_t> predicted{-1, -1}, labels{0, 1};
  m.add(predicted, labels);
  CHECK(m.accuracy() == 0);
  CHECK(m.macro_f1() == 0);
}

namespace {
nlohmann::json tasks(const char* name) {
  std::ifstream f(test::test_data("trainer/metrics_tasks.json"));
  return nlohmann::json::parse(f).at(name);
}
auto near(const nlohmann::json& c, const char* name) { return Catch::Approx(c.at(name).get<double>()).epsilon(1e-12); }
template <class T>
std::vector<T> list(const nlohmann::json& c, const char* name) {
  return c.at(name).get<std::vector<T>>();
}
template <class T>
std::span<const T> part(const std::vector<T>& x, size_t at, size_t n) {
  return std::span(x).subspan(at, std::min(n, x.size() - at));
}
}  // namespace

TEST_CASE("mean IoU and Dice over classes equal scikit-learn's") {
  for (const auto& c : tasks("segmentation")) {
    Classification m(c.at("classes"));
    m.add(list<int64_t>(c, "predicted"), list<int64_t>(c, "labels"));
    CHECK(m.mean_iou() == near(c, "miou"));
    CHECK(m.macro_f1() == near(c, "dice"));
    CHECK(m.accuracy() == near(c, "accuracy"));
  }
}

TEST_CASE("multilabel metrics equal scikit-learn's, however the rows are batched") {
  for (const auto& c : tasks("multilabel")) {
    const size_t labels = c.at("labels");
    const auto scores = list<float>(c, "scores"), truth = list<float>(c, "truth");
    for (const size_t rows : {size_t(1), size_t(4), scores.size()}) {
      Multilabel m(static_cast<int64_t>(labels));
      for (size_t i = 0; i < scores.size(); i += rows * labels)
        m.add(part(scores, i, rows * labels), part(truth, i, rows * labels), 0);
      CHECK(m.micro_f1() == near(c, "micro_f1"));
      CHECK(m.macro_f1() == near(c, "macro_f1"));
      CHECK(m.exact_match() == near(c, "exact_match"));
    }
  }
  Multilabel m(2);  // ignored labels make a row neither right nor wrong
  const std::vector<float> scores{1, -1, 1, 1}, truth{1, -100, -100, -100};
  m.add(scores, truth, 0);
  CHECK(m.exact_match() == 1);
  CHECK(m.micro_f1() == 1);
}

TEST_CASE("regression metrics equal scikit-learn's and scipy's") {
  for (const auto& c : tasks("regression")) {
    const auto predicted = list<double>(c, "predicted"), wanted = list<double>(c, "wanted");
    Regression m;
    for (size_t i = 0; i < wanted.size(); i += 3) m.add(part(predicted, i, 3), part(wanted, i, 3));
    CHECK(m.mse() == near(c, "mse"));
    CHECK(m.mae() == near(c, "mae"));
    CHECK(m.pearson() == near(c, "pearson"));
    CHECK(m.spearman() == near(c, "spearman"));
  }
  Regression flat;
  const std::vector<double> ones{1, 1}, some{1, 2};
  flat.add(ones, some);
  CHECK(std::isnan(flat.pearson()));
  CHECK(std::isnan(flat.spearman()));
}

TEST_CASE("spans: the best pair in order, exact match and token F1") {
  for (const auto& c : tasks("span")) {
    Spans m;
    const auto start = list<float>(c, "start"), end = list<float>(c, "end");
    const auto labels = list<int64_t>(c, "labels");
    const size_t tokens = c.at("tokens");
    for (size_t r = 0; 2 * r < labels.size(); r += 6)
      m.add(part(start, r * tokens, 6 * tokens), part(end, r * tokens, 6 * tokens), part(labels, 2 * r, 12));
    CHECK(m.exact_match() == near(c, "exact_match"));
    CHECK(m.f1() == near(c, "span_f1"));
  }
}
