// Search spaces and pruning rules of sweeps. tests/sweep/test.py runs sweeps.
#include <catch2/catch_all.hpp>
#include <cmath>
#include <set>

#include "run/settings/settings.h"
#include "run/sweep/pruning.h"
#include "run/sweep/results.h"
#include "run/sweep/space.h"
#include "tests/errors.h"

using namespace amp;
using amp::test::error_of;
using nlohmann::ordered_json;

namespace {

SweepSpace space_of(const ordered_json& json) {
  return sweep_space(json, [](const std::string& name) -> const Setting& { return setting_named(name); });
}

std::vector<std::string> names(const std::vector<SweepTrial>& trials) {
  std::vector<std::string> out;
  for (const SweepTrial& t : trials) out.push_back(t.name);
  return out;
}

std::string refused(const std::string& text) {
  return error_of([&] { sweep_trials(space_of(sweep_json(text)), 0, 1); }).id();
}

}  // namespace

TEST_CASE("a grid is the product of its lists, the first setting changes most slowly", "[sweep]") {
  const auto trials = sweep_trials(space_of(sweep_json("lr=1e-5, 3e-5; batch_size=16,32")), 0, 1);
  CHECK(names(trials) == std::vector<std::string>{"lr=1e-5,batch_size=16", "lr=1e-5,batch_size=32",
                                                  "lr=3e-5,batch_size=16", "lr=3e-5,batch_size=32"});
  const auto json =
      ordered_json::parse(R"({"lr": [1e-5, 0.5], "freeze": [["a*", "b"], []], "use_fp16": [true, false]})");
  const auto typed = sweep_trials(space_of(json), 0, 1);
  CHECK(typed.size() == 8);
  // "a*" became "a_", so the name gets a suffix.
  CHECK(typed[0].name.starts_with("lr=1e-5,freeze=a_+b,use_fp16=true-"));
  CHECK(typed[0].values[1].second == std::vector<std::string>{"a*", "b"});
  CHECK(typed[7].name == "lr=0.5,freeze=,use_fp16=false");
}

TEST_CASE("names of different trials differ, also where bytes are replaced or cut", "[sweep]") {
  const std::string longest(200, 'x');
  const auto trials = sweep_trials(
      space_of(ordered_json{{"train", {"a/b", "a:b", "a b", longest, longest + "y"}}, {"lr", {1, 2}}}), 0, 1);
  std::set<std::string> different;
  for (const SweepTrial& t : trials) {
    CHECK(t.name.size() < 140);
    CHECK(t.name.find_first_of("/: ") == std::string::npos);
    different.insert(t.name);
  }
  CHECK(different.size() == 10);
}

TEST_CASE("random trials are distinct, within their ranges, and only appended by a larger count", "[sweep]") {
  const SweepSpace space =
      space_of(sweep_json("lr=log_uniform(1e-6,1e-2);batch_size=uniform(4,9);optimizer=adamw,sgd"));
  const auto few = names(sweep_trials(space, 50, 3)), many = names(sweep_trials(space, 400, 3));
  CHECK(std::set(many.begin(), many.end()).size() == 400);
  CHECK(std::equal(few.begin(), few.end(), many.begin()));
  CHECK(few != names(sweep_trials(space, 50, 4)));
  double logs = 0;
  std::set<std::string> sizes;
  for (const SweepTrial& t : sweep_trials(space, 400, 3)) {
    const double lr = std::stod(t.values[0].second[0]);
    CHECK((lr >= 1e-6 && lr <= 1e-2));
    logs += std::log10(lr) / 400;
    sizes.insert(t.values[1].second[0]);
  }
  CHECK(std::abs(logs + 4) < 0.25);  // tolerance: 4 standard deviations of the mean of 400 uniform draws of width 4
  CHECK(sizes == std::set<std::string>{"4", "5", "6", "7", "8", "9"});
  CHECK(sweep_trials(space_of(sweep_json("lr=1,2;batch_size=3,4")), 100, 1).size() == 4);
}

TEST_CASE("malformed spaces are refused", "[sweep]") {
  for (const char* text : {"", "lr", "lr=", "=1", "lr=1;lr=2", "lr=1,1.0", "lr=uniform(1,2)", "lr=uniform(2,1)",
                           "lr=uniform(1)", "lr=log_uniform(0,1)", "optimizer=uniform(0,1)"})
    CHECK(refused(text) == "E_SWEEP");
  CHECK(refused("lr=-1") == "E_USAGE");
  CHECK(refused("lr=uniform(-1,1)") == "E_USAGE");
  std::string large = "seed=0";
  for (int i = 1; i < 10'001; ++i) large += "," + std::to_string(i);
  CHECK(refused(large) == "E_SWEEP");
  for (const char* json : {R"([1])", R"({})", R"({"lr": null})", R"({"lr": []})", R"({"lr": [{"a": 1}]})",
                           R"({"lr": {"uniform": [0, 1], "x": 1}})", R"({"lr": {"uniform": 3}})"})
    CHECK(error_of([&] { sweep_trials(space_of(ordered_json::parse(json)), 2, 1); }).id() == "E_SWEEP");
}

TEST_CASE("the median rule ends runs that are worse than the median of three others at the same step", "[sweep]") {
  const std::vector<MetricCurve> others = {{{10, 0.2}, {20, 0.5}}, {{10, 0.4}}, {{10, 0.6}, {20, NAN}}, {{20, 0.7}}};
  const auto bad = [&](const MetricCurve& run, bool lower) {
    return pruned(Pruning::median, run, run.size() - 1, others, lower).has_value();
  };
  CHECK(bad({{10, 0.39}}, false));
  CHECK_FALSE(bad({{10, 0.4}}, false));
  CHECK(bad({{10, 0.41}}, true));
  CHECK(bad({{10, NAN}}, false));
  CHECK_FALSE(bad({{5, 0}}, false));              // no other run was evaluated at this step
  CHECK_FALSE(bad({{10, 0.5}, {20, 0}}, false));  // the best value so far counts
  CHECK(bad({{10, 0.4}, {20, 0.4}}, false));      // a NaN counts as the worst value, so the median is 0.5
  CHECK_FALSE(pruned(Pruning::none, {{10, 0}}, 0, others, false));
}

TEST_CASE("halving keeps the better half after 1, 2, 4 ... evaluations", "[sweep]") {
  const auto others = [](std::vector<double> values) {
    std::vector<MetricCurve> out;
    for (const double v : values) out.push_back({{1, v}, {2, v}, {3, v}, {4, v}});
    return out;
  };
  const auto bad = [&](double value, const std::vector<double>& values, size_t index = 0) {
    const MetricCurve run = {{1, value}, {2, value}, {3, value}, {4, value}};
    return pruned(Pruning::halving, run, index, others(values), false).has_value();
  };
  CHECK_FALSE(bad(0.1, {}));
  CHECK(bad(0.1, {0.2}));
  CHECK_FALSE(bad(0.3, {0.2}));
  CHECK_FALSE(bad(0.2, {0.2}));  // a tie does not prune the run
  CHECK_FALSE(bad(0.2, {0.1, 0.3}));
  CHECK(bad(0.2, {0.1, 0.3, 0.4}));
  CHECK(bad(0.1, {0.2}, 1));
  CHECK_FALSE(bad(0.1, {0.2}, 2));  // halving does not decide at the third evaluation
  CHECK(bad(0.1, {0.2}, 3));
  CHECK(bad(NAN, {0.2}));
}
