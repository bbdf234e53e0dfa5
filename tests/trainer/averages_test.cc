// Weight averages against timm's ModelEmaV3 and torch's AveragedModel; cycled momentum against torch's OneCycleLR;
// gradient noise (averages.json, made by make_averages.py).
#include <catch2/catch_all.hpp>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "golden_optimizer.h"
#include "tests/support.h"
#include "trainer/loop/schedule.h"

using namespace amp;
using amp::test::LaidOut;
using nlohmann::json;

namespace {

json golden() {
  std::ifstream file(test::test_data("trainer/averages.json"));
  return json::parse(file);
}

FlatLayout layout_of(int64_t n) {
  FlatLayout layout;
  layout.add("w", {n});
  return layout;
}

std::vector<double> spread(const FlatLayout& layout, const json& values) {
  auto out = values.get<std::vector<double>>();
  out.resize(static_cast<size_t>(layout.size()));
  return out;
}

}  // namespace

TEST_CASE("EMA with warm-up, of every third step, and SWA, resumed in the middle", "[optimizer]") {
  const json g = golden();
  const FlatLayout layout = layout_of(7);
  const int place = GENERATE(0, 1);  // position of the tested average among several
  for (const auto& [kind, want] : g.at("averages").items()) {
    INFO(kind << ", average " << place);
    OptimizerConfig config;
    config.rule = "sgd";
    if (kind == "swa") {
      config.swa_start = 10;
      config.ema_every = 4;
    } else {
      config.ema_decays = place == 0 ? std::vector{0.9, 0.3} : std::vector{0.99, 0.9, 0.5};
      config.ema_warmup = kind == "ema_warmup";
      config.ema_every = kind == "ema_every" ? 3 : 1;
    }
    std::vector<double> p = spread(layout, g["start"]);
    auto o = std::make_unique<LaidOut<double>>(config, layout, p.data());
    for (size_t t = 0; t < g["grads"].size(); ++t) {
      if (t == 21) {
        auto next = std::make_unique<LaidOut<double>>(config, layout, p.data());
        next->load_state(o->state(), o->steps());
        o = std::move(next);
      }
      std::vector<double> grads = spread(layout, g["grads"][t]);
      if (t % 9 == 4) {  // this step is skipped, as after an overflow
        std::vector<double> bad = grads;
        bad[0] = std::numeric_limits<double>::infinity();
        CHECK_FALSE(o->apply(p.data(), bad.data(), 1, o->inspect(bad.data(), 1), 0.1));
      }
      REQUIRE(o->apply(p.data(), grads.data(), 1, o->inspect(grads.data(), 1), 0.1));
    }
    for (size_t i = 0; i < want.size(); ++i)
      CHECK(o->moment(DeviceUpdate::average(kind == "swa" ? 0 : place))[i] ==
            Catch::Approx(want[i].get<double>()).epsilon(1e-13).margin(1e-14));
  }
}

TEST_CASE("one-cycle's rates and momenta are torch's over 1,000 steps", "[schedule]") {
  const json g = golden();
  const FlatLayout layout = layout_of(7);
  for (const json& c : g.at("cycles")) {
    INFO(c.at("rule") << ' ' << c.at("cycle"));
    ScheduleConfig s;
    s.kind = "one_cycle";
    s.lr = 0.02;
    s.total_steps = 1000;
    s.settings["cycle_momentum"] = "true";
    for (const auto& [name, value] : c["cycle"].items())
      s.settings[name] = value.is_string() ? value.get<std::string>() : value.dump();
    const Schedule long_one(s);
    for (size_t i = 0; i < c["steps"].size(); ++i) {
      const int64_t step = c["steps"][i];
      INFO("step " << step);
      CHECK(long_one.lr(step) == Catch::Approx(c["lr"][i].get<double>()).epsilon(1e-13));
      CHECK(*long_one.momentum(step) == Catch::Approx(c["momentum"][i].get<double>()).epsilon(1e-13));
    }
    s.total_steps = 50;
    const Schedule at(s);
    OptimizerConfig config;
    config.rule = c["rule"];
    config.settings = rule_settings(config.rule, {});
    config.settings.nesterov = c["options"].value("nesterov", false);
    config.settings.*cycled_key(config.rule) = *at.momentum(0);
    std::vector<double> p = spread(layout, g["start"]);
    auto o = std::make_unique<LaidOut<double>>(config, layout, p.data());
    for (int64_t t = 0; t < 50; ++t) {
      if (t == 23) {  // continues as a resumed run, with a new optimizer
        auto next = std::make_unique<LaidOut<double>>(config, layout, p.data());
        next->load_state(o->state(), o->steps());
        o = std::move(next);
      }
      const std::vector<double> grads = spread(layout, g["grads"][static_cast<size_t>(t) % g["grads"].size()]);
      o->set_momentum(*at.momentum(o->steps()));
      REQUIRE(o->apply(p.data(), grads.data(), 1, o->inspect(grads.data(), 1), at.lr(o->steps())));
    }
    for (size_t i = 0; i < 7; ++i)
      CHECK(p[i] == Catch::Approx(c["after"][i].get<double>()).epsilon(1e-12).margin(1e-13));
  }
  CHECK_THROWS_AS(cycled_key("adagrad"), Error);
  CHECK_THROWS_AS(cycled_key("muon"), Error);
}

TEST_CASE("gradient noise has the variance of its step, inside loss scaling", "[optimizer]") {
  const int64_t n = 200000;
  const FlatLayout layout = layout_of(n);
  OptimizerConfig config;
  config.rule = "sgd";
  config.gradient_noise = 0.3;
  config.noise_seed = 5;
  std::vector<double> p(static_cast<size_t>(layout.size()));
  LaidOut<double> o(config, layout, p.data());
  std::vector<double> first;
  for (const int64_t t : {0, 9, 99}) {
    INFO("step " << t);
    o.set_steps(t);
    std::vector<double> g(p.size());
    o.add_noise(g.data(), 1024);
    double sum = 0, squares = 0, fourth = 0;
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      const double x = g[i] / 1024;
      sum += x;
      squares += x * x;
      fourth += x * x * x * x;
    }
    const double variance = 0.3 / std::pow(1 + static_cast<double>(t), 0.55), m = static_cast<double>(n);
    // The tolerance is five standard errors: sd / sqrt(n) for a mean, sd^2 sqrt(2 / n) for a variance, sqrt(24 / n) for
    // a kurtosis.
    CHECK(std::abs(sum / m) < 5 * std::sqrt(variance / m));
    CHECK(squares / m == Catch::Approx(variance).epsilon(5 * std::sqrt(2 / m)));
    CHECK(m * fourth / (squares * squares) == Catch::Approx(3).margin(5 * std::sqrt(24 / m)));
    std::vector<double> again(p.size());
    o.add_noise(again.data(), 1024);
    CHECK(again == g);
    CHECK(first != g);
    first = g;
  }
}

TEST_CASE("settings of averages and noise out of range", "[optimizer]") {
  const auto refused = [](auto edit) {
    OptimizerConfig c;
    edit(c);
    CHECK_THROWS_AS(c.validate(), Error);
  };
  refused([](OptimizerConfig& c) { c.ema_every = 0; });
  refused([](OptimizerConfig& c) { c.ema_decays = {0.9, 0.9}; });
  refused([](OptimizerConfig& c) { c.ema_decays = {0.9, 0.99, 0.999, 0.9999, 0.99999}; });
  refused([](OptimizerConfig& c) { c.gradient_noise = -1; });
  refused([](OptimizerConfig& c) { c.gradient_noise = std::nan(""); });
  refused([](OptimizerConfig& c) { c.swa_start = 0, c.ema_decays = {0.9}; });
  refused([](OptimizerConfig& c) { c.swa_start = 0, c.rule = "schedule_free_adamw"; });
}
