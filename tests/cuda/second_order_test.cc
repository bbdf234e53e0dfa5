// Second-order optimizers on the emulated device.
#include "tests/zoo/second_order.h"

#include <catch2/catch_all.hpp>

#include "tests/emulator/emulated_device.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;
using nlohmann::json;
namespace fs = std::filesystem;

TEST_CASE("rules of the second order on the emulated device follow torch", "[cuda]") {
  const fs::path dir = test_data("zoo") + "/autoencoder_ts11";
  const Golden g(dir);
  const SafeTensors golden = read_safetensors((dir / "second_order.safetensors").string());
  const json runs = json::parse(golden.metadata.at("runs"));
  const auto device = cuda::make_emulated_device();
  for (const auto& [name, run] : runs.items()) {
    INFO(name);
    SecondOrderSetup there;
    there.device = device.get();
    CHECK(distance(golden, name, train_second_order(g, run, there)) <= 5 * run.at("noise").get<double>() + 2e-7);
  }
}
