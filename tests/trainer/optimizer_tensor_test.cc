// Tensor-wise optimizers against transformers, timm and torch.optim, and tensors with their own clipping norm or first
// step (tests/data/trainer/optimizer_tensor.json, made by make_optimizer_tensor.py).
#include <omp.h>

#include <catch2/catch_all.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <type_traits>

#include "backend/update_rules.h"
#include "golden_optimizer.h"
#include "tests/errors.h"
#include "tests/support.h"

using namespace amp;
using amp::test::gather;
using amp::test::LaidOut;
using nlohmann::json;

namespace {
const json& golden() {
  static const json g = json::parse(std::ifstream(test::test_data("trainer/optimizer_tensor.json")));
  return g;
}

FlatLayout layout_of(const json& c) {
  FlatLayout layout;
  for (const auto& [name, dims] : golden().at("shapes").items()) {
    Chunk& chunk = layout.add(name, dims.get<Dims>());
    if (!c.at("own").contains(name)) continue;
    const json& own = c["own"][name];
    chunk.elementwise = own.value("adamw", false);
    chunk.clip_group = own.value("clip_group", 0);
    chunk.max_grad_norm = own.value("max_grad_norm", 0.0);
    chunk.from_step = own.value("unfreeze_step", int64_t{0});
  }
  return layout;
}

// Returns the largest difference from the reference of the same precision.
template <class T>
double worst(const json& c, double scale, int64_t bad_step = -1) {
  const json& g = golden();
  const FlatLayout layout = layout_of(c);
  auto p = gather<T>(layout, g.at("start"));
  OptimizerConfig config = test::rule_of(c);
  config.settings.nesterov = c["options"].value("nesterov", false);
  config.max_grad_norm = c.at("norm");
  config.validate();
  LaidOut<T> o(config, layout, p.data());
  for (size_t step = 0; step < g.at("grads").size(); ++step) {
    auto grads = gather<T>(layout, g["grads"][step], scale);
    if (static_cast<int64_t>(step) == bad_step) {
      auto bad = grads;
      bad[0] = std::numeric_limits<T>::infinity();
      const auto before = p;
      REQUIRE_FALSE(o.apply(p.data(), bad.data(), scale, o.inspect(bad.data(), scale), 1));
      REQUIRE(p == before);
    }
    const GradStats s = o.inspect(grads.data(), scale);
    REQUIRE(o.apply(p.data(), grads.data(), scale, s, c.at("rates")[step]));
  }
  double error = 0;
  for (const Chunk& chunk : layout.chunks()) {
    const auto want = c.at(std::is_same_v<T, float> ? "f32" : "f64").at(chunk.name).template get<std::vector<double>>();
    for (size_t i = 0; i < want.size(); ++i)
      error = std::max(error, std::abs(static_cast<double>(p[static_cast<size_t>(chunk.offset) + i]) - want[i]));
  }
  return error;
}
}  // namespace

// Weights are below 3, and PyTorch's fp32 runs differ by up to 2e-6 from its fp64 runs.
TEST_CASE("rules of whole tensors follow their references in fp32") {
  for (const json& c : golden().at("cases")) {
    INFO(c.at("name").get<std::string>());
    CHECK(worst<float>(c, 1) < 3e-6);
    CHECK(worst<float>(c, 65536, 9) == worst<float>(c, 1));
  }
}

TEST_CASE("rules of whole tensors follow their references in fp64") {
  for (const json& c : golden().at("cases")) {
    INFO(c.at("name").get<std::string>());
    CHECK(worst<double>(c, 1) < 2e-14);
    CHECK(worst<double>(c, 1000) < 1e-13);
  }
}

TEST_CASE("the bits of rules of whole tensors do not depend on the thread count, and their state continues") {
  for (const char* const rule : {"adafactor", "adamp", "sgdp", "muon"}) {
    INFO(rule);
    FlatLayout layout;
    layout.add("a", {300, 333});
    layout.add("b", {70001});
    layout.add("c", {41, 9, 3, 3});
    layout.add("d", {1, 40000});
    const auto size = static_cast<size_t>(layout.size());
    const auto train = [&](int threads, bool reload) {
      omp_set_num_threads(threads);
      std::mt19937 r(3);
      std::normal_distribution<float> n;
      std::vector<float> p(size), g(size);
      for (float& x : p) x = n(r);
      OptimizerConfig config;
      config.rule = rule;
      config.settings = rule_settings(rule, {});
      config.max_grad_norm = 1;
      config.ema_decays = {0.9};
      config.lookahead = 2;
      config.weight_decay = 0.01;
      auto o = std::make_unique<LaidOut<float>>(config, layout, p.data());
      for (int step = 0; step < 4; ++step) {
        for (float& x : g) x = n(r);
        if (reload && step == 2) {
          auto other = std::make_unique<LaidOut<float>>(config, layout, g.data());
          other->load_state(o->state(), o->steps());
          const auto from = o->own_state(), to = other->own_state();
          REQUIRE(from.size() == to.size());
          for (size_t i = 0; i < from.size(); ++i) *to[i].second = *from[i].second;
          o = std::move(other);
        }
        o->apply(p.data(), g.data(), 4, o->inspect(g.data(), 4), 0.01);
      }
      return std::pair(p, std::vector<float>(o->ema(), o->ema() + size));
    };
    const auto one = train(1, false);
    CHECK((one == train(2, false)));
    CHECK((one == train(5, false)));
    CHECK((one == train(3, true)));
  }
  omp_set_num_threads(omp_get_num_procs());
}

TEST_CASE("Lookahead and EMA follow a rule of whole tensors") {
  FlatLayout layout;
  layout.add("a", {60, 40});
  layout.add("b", {7});
  const auto size = static_cast<size_t>(layout.size());
  OptimizerConfig config, around;
  config.rule = around.rule = "muon";
  config.settings = around.settings = rule_settings("muon", {});
  around.ema_decays = {0.9};
  around.lookahead = 3;
  around.lookahead_alpha = 0.25;
  std::mt19937 r(5);
  std::normal_distribution<double> n;
  std::vector<double> p(size), g(size);
  for (const Chunk& c : layout.chunks()) {
    for (int64_t i = 0; i < c.numel; ++i) p[static_cast<size_t>(c.offset + i)] = n(r);
  }
  std::vector<double> q = p, slow = p, average = p;
  LaidOut<double> plain(config, layout, p.data()), wrapped(around, layout, q.data());
  for (int step = 1; step <= 7; ++step) {
    for (double& x : g) x = n(r);
    const GradStats s = plain.inspect(g.data(), 1);
    REQUIRE(plain.apply(p.data(), g.data(), 1, s, 0.05));
    REQUIRE(wrapped.apply(q.data(), g.data(), 1, s, 0.05));
    for (size_t i = 0; i < size; ++i) {
      if (step % 3 == 0) p[i] = slow[i] = slow[i] + 0.25 * (p[i] - slow[i]);
      average[i] = 0.9 * average[i] + 0.1 * p[i];
    }
  }
  for (const Chunk& c : layout.chunks()) {
    for (auto i = static_cast<size_t>(c.offset); i < static_cast<size_t>(c.offset + c.numel); ++i) {
      REQUIRE(q[i] == Catch::Approx(p[i]).epsilon(1e-12).margin(1e-12));
      REQUIRE(wrapped.ema()[i] == Catch::Approx(average[i]).epsilon(1e-12).margin(1e-12));
    }
  }
}

TEST_CASE("Adafactor keeps a row and a column of a matrix, and Muon one moment") {
  FlatLayout layout;
  layout.add("w", {1000, 400});
  layout.add("b", {400});
  const auto bytes = [&](const char* rule) {
    OptimizerConfig config;
    config.rule = rule;
    config.settings = rule_settings(rule, {});
    std::vector<float> p(static_cast<size_t>(layout.size()));
    LaidOut<float> o(config, layout, p.data());
    int64_t kept = 0;
    for (const auto& [name, t] : o.own_state()) kept += t->bytes();
    CHECK(config.state_bytes(update_spans(layout), layout.trained_size()) >= kept + 400000 * 4);
    return kept;
  };
  CHECK(bytes("adafactor") == 4 * (1000 + 400 + 400));
  CHECK(bytes("muon") == 4 * (400000 + 2 * 400));
  CHECK(bytes("adamp") == 4 * 2 * 400400);
}

TEST_CASE("settings of rules of whole tensors name their range") {
  const auto refused = [](const char* rule, const char* key, double x, const std::string& words) {
    OptimizerConfig c;
    c.rule = rule;
    c.settings = rule_settings(rule, {{key, x}});
    const Error e = test::error_of([&] { c.validate(); });
    CHECK(e.exit() == Exit::usage);
    CHECK(e.hint().find(words) != std::string::npos);
  };
  refused("adafactor", "decay_rate", 0.8, "[-1, 0)");
  refused("muon", "ns_steps", 2.5, "a whole number in [1, 99]");
  refused("muon", "match_rms_adamw", 2, "true or false");
  refused("adamp", "delta", -1, ">= 0");
  OptimizerConfig c;
  c.rule = "adafactor";
  c.state_bits = 8;
  CHECK(test::error_of([&] { c.validate(); }).fact().find("adafactor keeps its moments in 32 bits") !=
        std::string::npos);
}
