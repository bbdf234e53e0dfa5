// reduce_lr_on_plateau against torch's ReduceLROnPlateau (plateau.json, made by make_plateau.py).
#include "trainer/loop/plateau.h"

#include <catch2/catch_all.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tests/support.h"

using namespace amp;
using nlohmann::json;

TEST_CASE("rates fall where torch's do, restored in the middle too", "[schedule]") {
  std::ifstream file(test::test_data("trainer/plateau.json"));
  const json g = json::parse(file);
  for (const json& c : g.at("cases")) {
    INFO(c.at("mode") << " " << c.at("options"));
    ScheduleConfig s;
    s.kind = "reduce_lr_on_plateau";
    s.lr = g.at("lr");
    for (const auto& [name, value] : c.at("options").items())
      s.settings[name] = value.is_string() ? value.get<std::string>() : value.dump();
    const bool lower = c.at("mode") == "min";
    Plateau plateau(s, lower);
    double before = s.lr;
    for (size_t i = 0; i < c.at("metrics").size(); ++i) {
      INFO("evaluation " << i);
      const json& m = c["metrics"][i];
      const bool fell = plateau.observe(m.is_null() ? std::nan("") : m.get<double>());
      CHECK(plateau.lr() == Catch::Approx(c.at("lr")[i].get<double>()).epsilon(1e-14));
      CHECK(fell == (plateau.lr() < before));
      before = plateau.lr();
      if (i % 7 != 6) continue;
      Plateau other(s, lower);
      other.restore(plateau.state());
      plateau = other;
    }
    CHECK(before < s.lr);
  }
}

TEST_CASE("settings of a plateau out of range", "[schedule]") {
  ScheduleConfig s;
  s.kind = "reduce_lr_on_plateau";
  for (const auto& [name, value] : {std::pair{"factor", "1.5"}, {"patience", "-1"}, {"threshold_mode", "both"}}) {
    s.settings = {{name, value}};
    CHECK_THROWS_AS(Schedule(s), Error);
  }
}
