// Metrics in a checkpoint's state.
#include "trainer/loop/metrics_state.h"

#include <catch2/catch_all.hpp>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

using namespace amp;

TEST_CASE("metrics come back from a checkpoint's state with all their members") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  Metrics m;
  m.loss = 0.1;
  m.samples = 7;
  m.values = {{"accuracy", 1.0 / 3}, {"f1", std::nan("")}, {"a", infinity}, {"b", -infinity}};
  m.brief = 2;
  m.details = R"({"confusion_matrix":[[3,0],[1,3]],"per_class":{"\u00e4":{"f1":0.5}}})";
  m.group_column = "country";
  m.groups = {{"fr", 3, {{"accuracy", 0.5}, {"loss", std::nan("")}}}};
  m.not_finite = 4;
  const Metrics r = metrics_of_state({nlohmann::json::parse(to_state(m).dump()), "last"});
  CHECK(r.loss == m.loss);
  CHECK(r.samples == 7);
  REQUIRE(r.values.size() == 4);
  CHECK(r.values[0] == m.values[0]);
  CHECK(std::isnan(r.values[1].second));
  CHECK(r.values[2] == m.values[2]);
  CHECK(r.values[3] == m.values[3]);
  CHECK(r.brief == 2);
  CHECK(r.details == m.details);
  CHECK(r.group_column == "country");
  REQUIRE(r.groups.size() == 1);
  CHECK(r.groups[0].name == "fr");
  CHECK(r.groups[0].samples == 3);
  CHECK(r.groups[0].values[0] == m.groups[0].values[0]);
  CHECK(r.not_finite == 4);
}

TEST_CASE("a checkpoint of an earlier version has metrics without details") {
  const Metrics m = metrics_of_state(
      {nlohmann::json::parse(R"({"loss": null, "samples": 3, "values": [["accuracy", 0.5]]})"), "last"});
  CHECK(std::isnan(m.loss));
  CHECK(m.samples == 3);
  CHECK(m.values == MetricValues{{"accuracy", 0.5}});
  CHECK(m.brief == Metrics().brief);
  CHECK(m.details.empty());
}
