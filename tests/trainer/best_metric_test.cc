// Best evaluation and early stopping against Hugging Face's Trainer (early_stopping.json, made by
// make_early_stopping.py).
#include "trainer/loop/best_metric.h"

#include <catch2/catch_all.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support.h"

using namespace amp;
using nlohmann::json;

TEST_CASE("early stopping counts as Hugging Face's Trainer does", "[trainer]") {
  std::ifstream file(test::test_data("trainer/early_stopping.json"));
  int64_t small_gains = 0;
  const json golden = json::parse(file);
  for (const json& c : golden.at("cases")) {
    INFO(c.at("mode") << " " << c.at("threshold"));
    BestMetric best;
    for (size_t i = 0; i < c.at("metrics").size(); ++i) {
      INFO("evaluation " << i);
      const json& m = c["metrics"][i];
      const auto step = static_cast<int64_t>(i);
      const bool better = best.observe(m.is_null() ? std::nan("") : m.get<double>(), step, c["mode"] == "min",
                                       c["threshold"].get<double>());
      CHECK(best.evals_since == c["since"][i]);
      CHECK(best.step == c["best"][i]);
      CHECK(better == (best.step == step));
      small_gains += better && best.evals_since > 0;
    }
  }
  CHECK(small_gains > 10);
}
