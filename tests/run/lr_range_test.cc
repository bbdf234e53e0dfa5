// --lr_range_test against fastai (tests/data/trainer/lr_range.json, made by make_lr_range.py), and as a run.
#include "run/prepare/lr_range.h"

#include <catch2/catch_all.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "run/run.h"
#include "tests/errors.h"
#include "tests/run/lenet_run.h"
#include "tests/support.h"

using namespace amp;
using amp::test::error_of;
using amp::test::TempDir;
using nlohmann::json;

namespace {
json read_json(const std::string& path) { return json::parse(std::string(read_file(path).text())); }
}  // namespace

TEST_CASE("a range test's rates, smoothed losses, end and suggestions are fastai's") {
  const json golden = json::parse(std::ifstream(test::test_data("trainer/lr_range.json")));
  for (const json& c : golden.at("cases")) {
    const int64_t steps = c.at("steps");
    INFO(steps << " steps from " << c.at("low"));
    const Schedule schedule(
        lr_range_schedule(steps, {{"min_lr", c.at("low").dump()}, {"max_lr", c.at("high").dump()}}));
    const auto rates = c.at("lr").get<std::vector<double>>(), losses = c.at("loss").get<std::vector<double>>();
    LrRange range(steps);
    for (size_t i = 0; i < rates.size(); ++i) {
      CHECK(schedule.lr(static_cast<int64_t>(i)) == Catch::Approx(rates[i]).epsilon(1e-12));
      CHECK_FALSE(range.over());
      range.observe(rates[i], losses[i]);
    }
    CHECK(range.over() == c.at("stopped").get<bool>());
    const json curve = json::parse(range.json());
    for (size_t i = 0; i < rates.size(); ++i)  // fastai sums in fp32, so its numbers are rounded
      CHECK(curve.at("smoothed_loss")[i].get<double>() ==
            Catch::Approx(c.at("smoothed")[i].get<double>()).epsilon(2e-6));
    const LrRange::Rates r = range.rates();
    CHECK(r.valley == c.at("valley").get<double>());
    CHECK(r.steep == c.at("steep").get<double>());
    CHECK(r.minimum == Catch::Approx(c.at("minimum").get<double>()).epsilon(1e-14));
  }
}

TEST_CASE("a range test that diverges at once, or is short, suggests nothing") {
  LrRange range(100);
  range.observe(1e-7, 1);
  range.observe(1e-6, NAN);
  CHECK(range.over());
  CHECK(range.rates().valley == 0);
  CHECK(json::parse(range.json()).at("loss")[1].is_null());
}

TEST_CASE("a range test writes its curve, stops where the loss diverges, and exports nothing") {
  const TempDir f;
  RunSpec spec = test::lenet_run(f, "run", -1);
  spec.schedule.lr_range_test = 60;
  spec.optimization.optimizer = "sgd";
  spec.optimization.momentum = 0.9;
  spec.optimization.max_grad_norm = 0;
  spec.schedule.lr_scheduler_kwargs = "max_lr=10000";
  const TrainReport report = train(*prepare(spec));
  REQUIRE(report.lr_range.has_value());
  CHECK(report.lr_range->over());
  CHECK(report.lr_range->seen() < 60);
  CHECK(report.result.steps == static_cast<int64_t>(report.lr_range->seen()));
  CHECK_FALSE(report.result.last.has_value());
  const LrRange::Rates r = report.lr_range->rates();
  CHECK(r.valley > 1e-6);
  CHECK(r.valley < 10000);
  const json curve = read_json(f / "run/lr_range.json");
  CHECK(curve.at("lr").size() == report.lr_range->seen());
  CHECK(curve.at("suggested").at("valley") == r.valley);
  CHECK(std::filesystem::exists(f / "run/report.html"));
  CHECK_FALSE(std::filesystem::exists(f / "run/model.onnx"));
  CHECK_FALSE(std::filesystem::exists(f / "run/checkpoints"));
  // A run replaces the folder of a range test as it replaces another run's.
  spec.schedule.lr_range_test = 0;
  spec.schedule.max_steps = 1;
  spec.schedule.lr_scheduler_kwargs = "";
  CHECK(error_of([&] { prepare(spec); }).id() == "E_OUTPUT_EXISTS");
  spec.output.overwrite = true;
  train(*prepare(spec));
  CHECK(std::filesystem::exists(f / "run/model.onnx"));
  CHECK_FALSE(std::filesystem::exists(f / "run/lr_range.json"));
}

TEST_CASE("a range test's bounds are refused with their range", "[settings]") {
  const TempDir f;
  const auto refused = [&](const char* arguments, const std::string& words) {
    RunSpec spec = test::lenet_run(f, "run", -1);
    spec.schedule.lr_range_test = 10;
    spec.schedule.lr_scheduler_kwargs = arguments;
    const Error e = error_of([&] { prepare(spec); });
    CHECK(e.exit() == Exit::usage);
    CHECK_THAT(e.fact() + "; " + e.hint(), Catch::Matchers::ContainsSubstring(words));
  };
  refused("min_lr=0", "give a number above 0");
  refused("min_lr=0.1,max_lr=0.01", "give a number below max_lr, 0.01");
  refused("num_cycles=2", "it has: min_lr, max_lr");
}
