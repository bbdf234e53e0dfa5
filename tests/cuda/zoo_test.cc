// Whole models on the emulated device: gradients and ten steps of SGD and AdamW against PyTorch's, as on the CPU.
#include <catch2/catch_all.hpp>
#include <filesystem>

#include "backend/cuda/emulated_device.h"
#include "tests/zoo/golden.h"

using namespace amp;
using namespace amp::test;

TEST_CASE("models on the emulated CUDA device agree with PyTorch", "[cuda]") {
  const auto device = cuda::make_emulated_device();
  for (const auto& entry : std::filesystem::directory_iterator(std::string(TEST_DATA) + "/zoo")) {
    if (!entry.is_directory()) continue;
    DYNAMIC_SECTION(entry.path().filename().string()) {
      const Golden g(entry.path());
      check_gradients(g, *device);
      for (const auto& [method, run] : g.runs) check_trajectory(g, method, *device);
    }
  }
}
