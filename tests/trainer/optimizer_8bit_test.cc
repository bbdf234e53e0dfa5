// 8-bit moments against bitsandbytes' AdamW8bit and Lion8bit on the CPU (tests/data/trainer/optimizer_8bit.json, made
// by make_optimizer_8bit.py).
#include <catch2/catch_all.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "laid_out.h"
#include "tests/support.h"

using namespace amp;
using amp::test::LaidOut;
using nlohmann::json;

namespace {

json golden() { return json::parse(std::ifstream(test::test_data("trainer/optimizer_8bit.json"))); }

// Fills x with the numbers of numbers() in make_optimizer_8bit.py, times factor.
void fill(float* x, int64_t n, int64_t seed, float factor) {
  for (int64_t i = 1; i <= n; ++i) {
    const double y = static_cast<double>((7919 * i + 104729 * seed) % 10007) / 5003 - 1;
    x[i - 1] = static_cast<float>(y * y * y) * factor;
  }
}

}  // namespace

// bitsandbytes makes the maps by torch.linspace, whose rounding depends on the processor's vector width. So the maps
// differ by one or two ulps.
TEST_CASE("the maps of 8-bit moments are bitsandbytes'") {
  const json g = golden();
  for (const bool is_signed : {false, true}) {
    const auto want = g.at(is_signed ? "signed" : "unsigned").get<std::vector<float>>();
    const std::array<float, 256>& have = dynamic_map(is_signed);
    for (size_t i = 0; i < 256; ++i) CHECK(std::abs(have[i] - want[i]) <= 2.4e-7f * std::abs(want[i]));
  }
}

TEST_CASE("a block takes the nearest code, and gives back what it was to a part of the largest") {
  const std::array<float, 256>& map = dynamic_map(true);
  std::vector<float> x(200), back(200);
  fill(x.data(), 200, 3, 5);
  std::vector<uint8_t> codes(200);
  const float largest = quantize_block(map, x.data(), 200, codes.data());
  dequantize_block(map, largest, codes.data(), 200, back.data());
  for (size_t i = 0; i < 200; ++i) {
    float nearest = INFINITY;
    for (const float c : map) nearest = std::min(nearest, std::abs(x[i] - c * largest));
    CHECK(std::abs(x[i] - back[i]) <= nearest * 1.001f + 1e-9f);
  }
  const std::vector<float> nothing(256, 0.0f);
  codes.resize(256);
  CHECK(quantize_block(map, nothing.data(), 256, codes.data()) == 0);
  CHECK(map[codes[9]] == 0);
}

// An element halfway between two codes could get either code, because bitsandbytes rounds moments differently: it
// computes beta m + (1 - beta) g, and not torch.lerp. No element here is halfway. Weights are below 1, and a step
// rounds each a few times.
TEST_CASE("8-bit moments follow bitsandbytes") {
  const json g = golden();
  const auto every = g.at("every").get<size_t>();
  for (const json& c : g.at("cases")) {
    INFO(c.at("name").get<std::string>());
    OptimizerConfig config;
    config.rule = c.at("kind");
    std::map<std::string, double> given;
    for (const auto& [name, value] : c.at("options").items()) {
      if (name == "betas") {
        given["beta1"] = value[0];
        given["beta2"] = value[1];
      } else if (name == "eps") {
        given[name] = value;
      }
    }
    config.settings = rule_settings(config.rule, given);
    config.weight_decay = c["options"].at("weight_decay");
    config.state_bits = 8;
    const double rate = c["options"].at("lr");
    FlatLayout layout(DecayExclude::none);
    for (const auto& [name, dims] : g.at("shapes").items()) layout.add(name, dims.get<Dims>());
    std::vector<float> p(static_cast<size_t>(layout.size())), grads(p.size());
    for (size_t k = 0; k < layout.chunks().size(); ++k) {
      const Chunk& chunk = layout.chunks()[k];
      fill(p.data() + chunk.offset, chunk.numel, static_cast<int64_t>(k), 1);
    }
    LaidOut<float> o(config, layout, p.data());
    for (int64_t step = 0; step < g.at("steps"); ++step) {
      for (size_t k = 0; k < layout.chunks().size(); ++k) {
        const Chunk& chunk = layout.chunks()[k];
        fill(grads.data() + chunk.offset, chunk.numel, 10 + 2 * step + static_cast<int64_t>(k), 0.5f);
      }
      REQUIRE(o.apply(p.data(), grads.data(), 1, o.inspect(grads.data(), 1), rate));
    }
    for (const Chunk& chunk : layout.chunks()) {
      const auto want = c.at("params").at(chunk.name).get<std::vector<float>>();
      for (size_t i = 0; i < want.size(); ++i) {
        CHECK(std::abs(p[static_cast<size_t>(chunk.offset) + i * every] - want[i]) < 2e-6f);
      }
    }
    const auto parts = o.own_state();
    REQUIRE(parts.size() == 3 * c.at("codes").size());
    for (size_t m = 0; m < c.at("codes").size(); ++m) {
      const auto want = c["codes"][m].get<std::vector<int>>();
      const auto* codes = static_cast<const uint8_t*>(parts[3 * m].second->data());
      REQUIRE(parts[3 * m].second->numel() == 79 * 71);
      for (size_t i = 0; i < want.size(); ++i) CHECK(int{codes[i * every]} == want[i]);
      const auto largest = c.at("largest")[m].get<std::vector<float>>();
      for (size_t i = 0; i < largest.size(); ++i)
        CHECK(parts[3 * m + 1].second->as<float>()[i] == Catch::Approx(largest[i]).epsilon(1e-6));
    }
  }
}
