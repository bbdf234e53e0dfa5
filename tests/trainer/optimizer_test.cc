// The CPU's optimizers against torch.optim (tests/data/trainer/optimizer.json, made by make_optimizer.py) in fp32 and
// fp64. Also unscaling, clipping, frozen parameters, EMA, thread counts and saved state.
#include <omp.h>

#include <catch2/catch_all.hpp>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <type_traits>

#include "backend/update_rules.h"
#include "base/setting_name.h"
#include "golden_optimizer.h"
#include "tests/support.h"

using namespace amp;
using amp::test::gather;
using amp::test::LaidOut;
using amp::test::rule_of;
using nlohmann::json;

namespace {
json golden() {
  std::ifstream f(test::test_data("trainer/optimizer.json"));
  return json::parse(f);
}

OptimizerConfig config_of(const json& c) {
  OptimizerConfig o = rule_of(c);
  o.settings.nesterov = c["options"].value("nesterov", false);
  for (const auto& [mode, bound] : c.at("clip").items()) {
    o.clip_mode = clip_mode_from_name(mode);
    o.max_grad_norm = bound;
  }
  return o;
}

FlatLayout layout_of(const json& g, DecayExclude exclude) {
  FlatLayout layout(exclude);
  for (const auto& [name, dims] : g.at("shapes").items()) layout.add(name, dims.get<Dims>());
  return layout;
}

// Runs a golden case, the gradients scaled by `scale`, and returns the largest error of the final parameters.
template <class T>
double worst(const json& g, const json& c, double scale) {
  FlatLayout layout = layout_of(g, c.at("exclude") ? DecayExclude::bias_and_norm : DecayExclude::none);
  for (Chunk& chunk : layout.chunks()) {
    if (!c.at("groups").contains(chunk.name)) continue;
    const json& own = c["groups"][chunk.name];
    chunk.lr_factor = own.at("lr_scale");
    if (own.contains("weight_decay")) chunk.weight_decay = own["weight_decay"].get<double>();
  }
  auto p = gather<T>(layout, g.at("start"));
  LaidOut<T> o(config_of(c), layout, p.data());
  const json& want = c.at(std::is_same_v<T, float> ? "f32" : "f64");
  const double base = c.at("options").at("lr");
  for (size_t step = 0; step < g.at("grads").size(); ++step) {
    const auto grads = gather<T>(layout, g["grads"][step], scale);
    const GradStats s = o.inspect(grads.data(), scale);
    REQUIRE(!s.found_inf);
    CHECK(s.norm ==
          Catch::Approx(want.at("norms")[step].get<double>()).epsilon(std::is_same_v<T, float> ? 1e-6 : 1e-14));
    REQUIRE(o.apply(p.data(), grads.data(), scale, s, base * (1 - static_cast<double>(step) / 80)));
  }
  double error = 0;
  for (const Chunk& ch : layout.chunks()) {
    const auto w = want.at("params").at(ch.name).get<std::vector<double>>();
    for (size_t i = 0; i < w.size(); ++i) {
      error = std::max(error, std::abs(static_cast<double>(p[static_cast<size_t>(ch.offset) + i]) - w[i]));
    }
  }
  return error;
}
}  // namespace

// Tolerance: parameters are below 4, and each of twelve steps rounds a parameter a few times, by at most one ulp(4) =
// 4.8e-7. Rounding errors of an Adam direction are multiplied by the learning rate. 2e-6 is four ulps. A wrong formula
// has a much larger effect (1e-3 for a wrong bias correction or order of decay).
TEST_CASE("every method follows torch.optim in fp32") {
  const json g = golden();
  for (const json& c : g.at("cases")) {
    INFO(c.at("name").get<std::string>());
    CHECK(worst<float>(g, c, 1) < 2e-6);
  }
}

TEST_CASE("every update rule has a golden trajectory") {
  const json g = golden();
  const json more = json::parse(std::ifstream(test::test_data("trainer/optimizer_second_order.json")));
  std::set<std::string> proved;
  const json tensors = json::parse(std::ifstream(test::test_data("trainer/optimizer_tensor.json")));
  for (const json* file : {&g, &more, &tensors}) {
    for (const json& c : file->at("cases")) proved.insert(c.at("kind").get<std::string>());
  }
  for (const std::string& rule : update_rule_names()) {
    INFO(rule << ": a row of CASES in tests/data/trainer/make_optimizer.py, make_optimizer_second_order.py or "
                 "make_optimizer_tensor.py");
    CHECK(proved.count(rule) == 1);
  }
}

TEST_CASE("every method follows torch.optim in fp64") {
  const json g = golden();
  for (const json& c : g.at("cases")) {
    INFO(c.at("name").get<std::string>());
    CHECK(worst<double>(g, c, 1) < 1e-14);
  }
}

TEST_CASE("a loss scale does not change the update, clipping included") {
  const json g = golden();
  for (const json& c : g.at("cases")) {
    INFO(c.at("name").get<std::string>());
    CHECK(worst<float>(g, c, 65536) == worst<float>(g, c, 1));  // a power of two, so unscaling is exact
    CHECK(worst<double>(g, c, 1000) < 1e-13);
  }
}

TEST_CASE("a step with a non-finite gradient changes nothing, wherever the element is") {
  FlatLayout layout;
  layout.add("a", {3, 71});
  layout.add("b", {5});
  const auto size = static_cast<size_t>(layout.size());
  std::vector<float> p(size, 0.5f), g(size, 0.25f);
  OptimizerConfig config;
  config.ema_decays = {0.9};
  LaidOut<float> o(config, layout, p.data());
  REQUIRE(o.apply(p.data(), g.data(), 8, o.inspect(g.data(), 8), 0.1));
  const auto before = p;
  const std::vector<float> ema(o.ema(), o.ema() + size);
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    for (const Chunk& c : layout.chunks()) {
      for (int64_t i = c.offset; i < c.offset + c.numel; ++i) {
        const float good = std::exchange(g[static_cast<size_t>(i)], bad);
        const GradStats s = o.inspect(g.data(), 8);
        REQUIRE(s.found_inf);
        REQUIRE(!std::isfinite(s.norm));
        REQUIRE(o.first_nonfinite(g.data()) == c.name);
        REQUIRE_FALSE(o.apply(p.data(), g.data(), 8, s, 0.1));
        g[static_cast<size_t>(i)] = good;
      }
    }
  }
  CHECK(o.steps() == 1);
  CHECK(p == before);
  CHECK(std::vector<float>(o.ema(), o.ema() + size) == ema);
  CHECK(o.first_nonfinite(g.data()).empty());
}

TEST_CASE("large finite gradients are finite and have a norm") {
  FlatLayout layout;
  layout.add("a", {100});
  std::vector<float> p(static_cast<size_t>(layout.size())), g(p.size(), 3e38f);
  LaidOut<float> o({}, layout, p.data());
  const GradStats s = o.inspect(g.data(), 1);
  CHECK_FALSE(s.found_inf);
  CHECK(s.norm == Catch::Approx(3e39).epsilon(1e-6));  // the fp32 sum of squares would be infinite
}

TEST_CASE("the clipping example of PyTorch's documentation of GradScaler semantics") {
  FlatLayout layout(DecayExclude::none);
  layout.add("a", {3});
  std::vector<float> p(16), g(16);
  g[0] = 3 * 1024;
  g[1] = 4 * 1024;
  OptimizerConfig config;
  config.rule = "sgd";
  config.max_grad_norm = 5;
  LaidOut<float> o(config, layout, p.data());
  const GradStats s = o.inspect(g.data(), 1024);
  CHECK(s.norm == 5.0);
  o.apply(p.data(), g.data(), 1024, s, 1);
  CHECK(-p[0] == 2.9999993f);
  CHECK(-p[1] == 3.999999f);
  CHECK(p[2] == 0.0f);
}

TEST_CASE("frozen chunks, learning-rate factors and gaps") {
  FlatLayout layout;
  layout.add("frozen", {7}).frozen = true;
  layout.add("slow", {3, 3}).lr_factor = 0.5;
  layout.add("fast", {3, 3});
  std::vector<float> p(static_cast<size_t>(layout.size()), 1.0f), g(p.size(), 1.0f);
  g[0] = std::numeric_limits<float>::infinity();  // the gradient of the frozen tensor is ignored
  g[7] = std::numeric_limits<float>::infinity();  // an element of the padding between two tensors
  OptimizerConfig config;
  config.rule = "sgd";
  LaidOut<float> o(config, layout, p.data());
  const GradStats s = o.inspect(g.data(), 1);
  CHECK(s.norm == Catch::Approx(std::sqrt(18.0)));
  REQUIRE(o.apply(p.data(), g.data(), 1, s, 0.5));
  for (const Chunk& c : layout.chunks()) {
    CHECK(c.offset % 16 == 0);
    const float want = c.frozen ? 1.0f : c.lr_factor == 0.5 ? 0.75f : 0.5f;
    for (int64_t i = 0; i < c.numel; ++i) CHECK(p[static_cast<size_t>(c.offset + i)] == want);
  }
  CHECK(p[7] == 1.0f);
}

TEST_CASE("what trains lies first, and only it has gradients, moments and an average") {
  FlatLayout layout;
  layout.add("frozen", {20}).frozen = true;
  layout.add("a", {3, 3});
  layout.add("frozen too", {2}).frozen = true;
  layout.add("b", {17});
  CHECK(layout.trained_size() == layout.size());  // before arrange(), frozen parameters are included
  layout.arrange();
  const auto& c = layout.chunks();
  CHECK(std::vector<int64_t>{c[1].offset, c[3].offset, c[0].offset, c[2].offset} ==
        std::vector<int64_t>{0, 16, 48, 80});
  CHECK(layout.size() == 96);
  REQUIRE(layout.trained_size() == 48);
  std::vector<float> p(96, 1.0f), g(48, 1.0f);
  p[48] = std::numeric_limits<float>::infinity();  // as in the mask that a model contains
  OptimizerConfig config;
  config.ema_decays = {0.5};
  LaidOut<float> o(config, layout, p.data());
  CHECK(o.first_nonfinite(p.data()).empty());
  REQUIRE(o.apply(p.data(), g.data(), 1, o.inspect(g.data(), 1), 0.5));
  for (int64_t i = 0; i < 9; ++i) CHECK(p[static_cast<size_t>(i)] < 1);
  for (size_t i = 49; i < 96; ++i) CHECK(p[i] == 1);
  const auto state = o.state();
  std::vector<std::string> names;
  for (const auto& [name, t] : state) names.push_back(name);
  CHECK(names == std::vector<std::string>{"ema/a", "ema/b", "m/a", "m/b", "v/a", "v/b"});
  auto more = state;  // an earlier version stored moments for all tensors
  more["m/frozen"] = HostTensor::zeros(DType::f32, {20});
  o.load_state(more, 7);
  CHECK(o.steps() == 7);
  more.erase("v/b");
  CHECK_THROWS_AS(o.load_state(more, 7), Error);
}

TEST_CASE("EMA is the recurrence over applied steps") {
  FlatLayout layout;
  layout.add("a", {4, 9});
  std::mt19937 r(1);
  std::normal_distribution<double> n;
  std::vector<double> p(static_cast<size_t>(layout.size())), g(p.size());
  for (double& x : p) x = n(r);
  OptimizerConfig config;
  config.ema_decays = {0.97};
  LaidOut<double> o(config, layout, p.data());
  auto want = p;
  for (int step = 0; step < 5; ++step) {
    for (double& x : g) x = n(r);
    GradStats s = o.inspect(g.data(), 1);
    s.found_inf = step == 2;
    if (o.apply(p.data(), g.data(), 1, s, 0.1)) {
      for (size_t i = 0; i < 36; ++i) want[i] = 0.97 * want[i] + 0.03 * p[i];
    }
  }
  CHECK(o.steps() == 4);
  for (size_t i = 0; i < 36; ++i) CHECK(o.ema()[i] == Catch::Approx(want[i]).epsilon(1e-13));
}

TEST_CASE("the bits do not depend on the thread count, and saved state continues with the same bits") {
  FlatLayout layout;
  layout.add("a", {300, 333});
  layout.add("b", {1001});
  layout.add("c", {41, 41});
  const auto size = static_cast<size_t>(layout.size());
  const auto train = [&](int threads, bool reload) {
    omp_set_num_threads(threads);
    std::mt19937 r(3);
    std::normal_distribution<float> n;
    std::vector<float> p(size), g(size);
    for (float& x : p) x = n(r);
    OptimizerConfig config;
    config.max_grad_norm = 1;
    config.ema_decays = {0.9};
    config.weight_decay = 0.01;
    LaidOut<float> o(config, layout, p.data());
    std::vector<double> norms;
    for (int step = 0; step < 4; ++step) {
      for (float& x : g) x = n(r);
      if (reload && step == 2) {
        LaidOut<float> other(config, layout, g.data());
        other.load_state(o.state(), o.steps());
        o = std::move(other);
      }
      const GradStats s = o.inspect(g.data(), 4);
      norms.push_back(s.norm);
      o.apply(p.data(), g.data(), 4, s, 0.01);
    }
    return std::tuple(p, norms, std::vector<float>(o.ema(), o.ema() + size));
  };
  const auto one = train(1, false);
  CHECK((one == train(2, false)));
  CHECK((one == train(5, false)));
  CHECK((one == train(3, true)));
  omp_set_num_threads(omp_get_num_procs());
}

TEST_CASE("a state of another shape is refused by name") {
  FlatLayout layout, other;
  layout.add("w", {2, 3});
  other.add("w", {3, 2});
  std::vector<float> p(16);
  LaidOut<float> a({}, layout, p.data()), b({}, other, p.data());
  try {
    b.load_state(a.state(), 1);
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.exit() == Exit::checkpoint);
    CHECK(e.id() == "E_CKPT_MISMATCH");
    CHECK(e.fact().find("m/w") != std::string::npos);
    CHECK(e.fact().find("[2,3]") != std::string::npos);
  }
  CHECK_THROWS_AS(b.load_state({}, 1), Error);
}

TEST_CASE("settings out of range are usage errors that name the flag") {
  const auto refused = [](auto edit, const std::string& flag) {
    OptimizerConfig c;
    edit(c);
    try {
      c.validate();
      FAIL(flag << " accepted");
    } catch (const Error& e) {
      CHECK(e.exit() == Exit::usage);
      CHECK(e.fact().find(setting_name(flag)) != std::string::npos);
    }
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  refused([&](OptimizerConfig& c) { c.max_grad_norm = -1; }, "max_grad_norm");
  refused([&](OptimizerConfig& c) { c.max_grad_norm = nan; }, "max_grad_norm");
  refused([&](OptimizerConfig& c) { c.weight_decay = nan; }, "weight_decay");
  refused([&](OptimizerConfig& c) { c.settings.beta2 = 1; }, "adam_beta2");
  refused([&](OptimizerConfig& c) { c.ema_decays = {1}; }, "ema_decay");
  refused([&](OptimizerConfig& c) { c.rule = "sgd", c.settings.nesterov = true; }, "momentum");
  CHECK_NOTHROW(OptimizerConfig{}.validate());
  CHECK_THROWS_AS(update_rule_from_name("adamx"), Error);
}
