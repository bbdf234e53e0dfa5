// Metrics against scikit-learn (metrics.json, made by make_metrics.py).
#include "trainer/metrics.h"

#include <catch2/catch_all.hpp>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"

using namespace amp;

TEST_CASE("accuracy and macro-F1 equal scikit-learn's, however the items are batched") {
  std::ifstream f(std::string(TEST_DATA) + "/trainer/metrics.json");
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

TEST_CASE("the average loss weighs by items and does not hide a NaN") {
  LossAverage a;
  CHECK(a.value() == 0);
  a.add_mean(1, 3);
  a.add_sum(5, 1);
  a.add_mean(std::nan(""), 0);  // a batch without items
  CHECK(a.value() == 2);
  CHECK(a.items() == 4);
  a.add_mean(std::nan(""), 1);
  CHECK(std::isnan(a.value()));
}
