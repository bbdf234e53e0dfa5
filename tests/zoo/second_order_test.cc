// Compares ten steps of second-order optimizers on imported models with references. These are timm's Adahessian and
// pytorch_optimizer's SophiaH with the same random vectors, differentiated twice by torch in float64, and the authors'
// SophiaG with the same sampled labels (tests/data/zoo/make_second_order.py).
#include "tests/zoo/second_order.h"

#include <catch2/catch_all.hpp>

#include "tests/support.h"

using namespace amp;
using namespace amp::test;
using nlohmann::json;
namespace fs = std::filesystem;

// Compares fp32 with float64. The tolerance is three times the error of torch's fp32 run plus the rounding of the
// golden weights. A wrong vector or estimate moves weights by the learning rate, 2e-2.
TEST_CASE("ten steps of the second order are torch's with the same vectors", "[hessian]") {
  size_t entries = 0;
  for (const auto& e : fs::directory_iterator(test_data("zoo"))) {
    if (!fs::exists(e.path() / "second_order.safetensors")) continue;
    ++entries;
    const Golden g(e.path());
    const SafeTensors golden = read_safetensors((e.path() / "second_order.safetensors").string());
    const json runs = json::parse(golden.metadata.at("runs"));
    for (const auto& [name, run] : runs.items()) {
      INFO(g.name << ' ' << name);
      const SecondOrderRun have = train_second_order(g, run, {});
      const double noise = run.at("noise");
      CHECK(distance(golden, name, have) <= 3 * noise + 2e-7);
      const auto want = run.at("losses").get<std::vector<double>>();
      REQUIRE(have.losses.size() == want.size());
      for (size_t i = 0; i < want.size(); ++i) CHECK(have.losses[i] == Catch::Approx(want[i]).epsilon(2e-5));
    }
  }
  CHECK(entries == 3);
}

TEST_CASE("curvature knows no loss scale, adds up over micro-batches, and a skipped step leaves no trace",
          "[hessian]") {
  const fs::path dir = test_data("zoo") + "/lenet_relu_dyn18";
  const Golden g(dir);
  const SafeTensors golden = read_safetensors((dir / "second_order.safetensors").string());
  const json runs = json::parse(golden.metadata.at("runs"));
  for (const char* const name : {"adahessian", "adahessian_3", "sophia_h", "sophia_g"}) {
    INFO(name);
    const json& run = runs.at(name);
    const SecondOrderRun once = train_second_order(g, run, {});
    SecondOrderSetup scaled, split, skips;
    scaled.scale = 1024;
    CHECK(train_second_order(g, run, scaled).params == once.params);  // scaling by a power of two changes no bits
    skips.overflow = 3;
    CHECK(train_second_order(g, run, skips).params == once.params);
    split.parts = 2;
    CHECK(distance(golden, name, train_second_order(g, run, split)) <= 5 * run.at("noise").get<double>() + 2e-7);
  }
}
