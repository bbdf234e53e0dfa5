// Optimizers that need more than a gradient, and wrapped optimizers, against timm, pytorch_optimizer and schedulefree
// (tests/data/trainer/optimizer_second_order.json, made by make_optimizer_second_order.py).
#include <catch2/catch_all.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "backend/update_rules.h"
#include "golden_optimizer.h"
#include "tests/support.h"

using namespace amp;
using amp::test::gather;
using amp::test::LaidOut;
using amp::test::rule_of;
using nlohmann::json;

namespace {
const json& golden() {
  static const json g = json::parse(std::ifstream(test::test_data("trainer/optimizer_second_order.json")));
  return g;
}

OptimizerConfig config_of(const json& c) {
  OptimizerConfig o = rule_of(c);
  o.lookahead = c.at("wrap").value("lookahead", int64_t{0});
  o.lookahead_alpha = c["wrap"].value("lookahead_alpha", 0.5);
  o.sam_rho = c["wrap"].value("sam_rho", 0.0);
  o.centralize = c["wrap"].value("centralize", false);
  o.max_grad_norm = c["wrap"].value("agc", 0.0);
  o.clip_mode = ClipMode::adaptive;
  o.validate();
  return o;
}

// Returns the gradient of the golden runs, times the loss scale.
template <class T>
std::vector<T> gradient(std::vector<T> given, const std::vector<T>& p, double scale) {
  for (size_t i = 0; i < given.size(); ++i) given[i] = (given[i] + T(0.25) * p[i]) * static_cast<T>(scale);
  return given;
}

template <class T>
double distance(const FlatLayout& layout, const json& want, const std::vector<T>& have) {
  double error = 0;
  for (const Chunk& c : layout.chunks()) {
    const auto w = want.at(c.name).get<std::vector<double>>();
    for (size_t i = 0; i < w.size(); ++i)
      error = std::max(error, std::abs(static_cast<double>(have[static_cast<size_t>(c.offset) + i]) - w[i]));
  }
  return error;
}

template <class T>
double worst(const json& c, double scale) {
  const json& g = golden();
  FlatLayout layout;
  for (const auto& [name, dims] : g.at("shapes").items()) layout.add(name, dims.template get<Dims>());
  auto p = gather<T>(layout, g.at("start"));
  const OptimizerConfig config = config_of(c);
  LaidOut<T> o(config, layout, p.data());
  const auto interval = static_cast<size_t>(config.settings.hessian_interval);
  std::vector<T> bend;
  const T* const curvature = config.needs_hessian_diagonal() ? (bend.resize(p.size()), bend.data()) : nullptr;
  for (size_t step = 0; step < g.at("grads").size(); ++step) {
    const auto given = gather<T>(layout, g["grads"][step]);
    if (curvature && step % interval == 0) {
      const auto fresh = gather<T>(layout, g.at("bends")[step]);
      std::copy(fresh.begin(), fresh.end(), bend.begin());
      o.average_curvature(bend.data());
    }
    auto grads = gradient(given, p, scale);
    if (config.sam_rho > 0) {
      const auto before = p;
      REQUIRE(o.perturb(p.data(), grads.data(), scale));
      REQUIRE(p != before);
      grads = gradient(given, p, scale);
      o.restore(p.data());
      REQUIRE(p == before);
    }
    const GradStats s = o.inspect(grads.data(), scale, curvature);
    if (o.transforms_gradients()) o.transform_gradients(p.data(), grads.data(), scale);
    REQUIRE(o.apply(p.data(), grads.data(), scale, s, c.at("rates")[step], curvature));
  }
  const json& want = c.at(std::is_same_v<T, float> ? "f32" : "f64");
  double error = distance(layout, want.at("params"), p);
  if (!config.has_evaluated_weights()) return error;
  const T* const m = o.moment(DeviceUpdate::Moment::m);
  with_element(config.rule, config.settings, [&]<class Element>(Element) {
    if constexpr (kHasEvaluatedWeights<Element>) {
      for (size_t i = 0; i < p.size(); ++i) p[i] = Element::evaluated(config.settings, p[i], m[i]);
    }
  });
  return std::max(error, distance(layout, want.at("evaluated"), p));
}
}  // namespace

// Weights are below 4 and a step rounds each a few times, ulp(4) = 4.8e-7. A quotient by an estimate near its floor
// (sophia_h, schedule_free's first steps) passes on the rounding of its numerator, multiplied by the learning rate.
TEST_CASE("rules given curvature, and rules around rules, follow their references in fp32") {
  for (const json& c : golden().at("cases")) {
    INFO(c.at("name").get<std::string>());
    CHECK(worst<float>(c, 1) < 2e-6);
  }
}

TEST_CASE("rules given curvature, and rules around rules, follow their references in fp64") {
  for (const json& c : golden().at("cases")) {
    INFO(c.at("name").get<std::string>());
    CHECK(worst<double>(c, 1) < 1e-14);
    CHECK(worst<double>(c, 1000) < 1e-13);
  }
}

TEST_CASE("curvature that is not finite skips the step, as does a gradient of SAM's first pass") {
  FlatLayout layout;
  layout.add("a", {3, 71});
  const auto size = static_cast<size_t>(layout.size());
  std::vector<float> p(size, 0.5f), g(size, 0.25f), h(size, 1.0f);
  OptimizerConfig config;
  config.rule = "adahessian";
  config.settings = rule_settings("adahessian", {});
  config.sam_rho = 0.1;
  LaidOut<float> o(config, layout, p.data());
  REQUIRE(o.apply(p.data(), g.data(), 8, o.inspect(g.data(), 8, h.data()), 0.1, h.data()));
  const auto before = p;
  for (const size_t at : {size_t{0}, size_t{100}, size_t{212}}) {
    h[at] = INFINITY;
    CHECK(o.inspect(g.data(), 8, h.data()).found_inf);
    h[at] = 1;
    g[at] = -INFINITY;
    CHECK_FALSE(o.perturb(p.data(), g.data(), 8));
    CHECK(p == before);
    g[at] = 0.25f;
  }
  CHECK_FALSE(o.inspect(g.data(), 8, h.data()).found_inf);
}

TEST_CASE("settings of rules given curvature and of wrappers name their range") {
  const auto refused = [](auto edit, const std::string& words) {
    OptimizerConfig c;
    edit(c);
    try {
      c.validate();
      FAIL(words << " accepted");
    } catch (const Error& e) {
      CHECK(e.exit() == Exit::usage);
      CHECK((e.fact() + e.hint()).find(words) != std::string::npos);
    }
  };
  const auto rule = [](OptimizerConfig& c, const char* name, const char* key, double x) {
    c.rule = name;
    c.settings = rule_settings(name, {{key, x}});
  };
  refused([&](OptimizerConfig& c) { rule(c, "adahessian", "hessian_power", 1.5); }, "a number in [0, 1]");
  refused([&](OptimizerConfig& c) { rule(c, "adahessian", "hessian_update_interval", 1.5); }, "a whole number >= 1");
  refused([&](OptimizerConfig& c) { rule(c, "sophia_h", "hessian_update_interval", 0); }, "a whole number >= 1");
  refused([&](OptimizerConfig& c) { rule(c, "sophia_h", "gaussian", 2); }, "true or false");
  refused([&](OptimizerConfig& c) { c.lookahead = -1; }, "lookahead");
  refused([&](OptimizerConfig& c) { c.lookahead_alpha = 0; }, "(0, 1]");
  refused([&](OptimizerConfig& c) { c.sam_rho = -0.1; }, "sam_rho");
  refused([&](OptimizerConfig& c) { c.state_bits = 16; }, "32 or 8");
  refused([&](OptimizerConfig& c) { c.rule = "lamb", c.state_bits = 8; }, "lamb keeps its moments in 32 bits");
  refused([&](OptimizerConfig& c) { c.settings.amsgrad = 1, c.state_bits = 8; }, "without amsgrad");
  refused([&](OptimizerConfig& c) { rule(c, "schedule_free_adamw", "r", 0), c.ema_decays = {0.9}; },
          "averages by itself");
}
