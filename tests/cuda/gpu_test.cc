// The emulator's checks on a real GPU, through the plugin. They are skipped without a GPU.
#include "tests/cuda/gpu.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_all.hpp>
#include <cstdio>
#include <filesystem>

#include "backend/parallel.h"
#include "base/error.h"
#include "tests/cuda/against_cpu.h"
#include "tests/cuda/trained.h"
#include "tests/cuda/update_check.h"
#include "tests/ops/one_node.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;

TEST_CASE("the plugin has every kernel", "[plugin]") {
  const PluginApi& plugin = plugin_or_skip();
  std::string missing;
  for (const OpDef* op : all_core_ops()) {
    if (!op->view && !plugin.has_kernel(op->name.c_str())) missing += op->name + ' ';
  }
  INFO("without: " << missing);
  CHECK(missing.empty());
  CHECK_FALSE(plugin.has_kernel("NoSuchOperator"));
}

TEST_CASE("the error on a machine without a GPU gives the reason", "[plugin]") {
  const PluginApi& plugin = plugin_or_skip();
  PluginOptions absent;
  absent.ordinal = 1 << 20;  // more devices than any machine has
  try {
    delete plugin.open(absent);
    FAIL("opened a device that is not there");
  } catch (const Error& e) {  // the exception of the plugin's library is caught here by its type
    CHECK(e.exit() == Exit::usage);
    CHECK(e.id() == "E_DEVICE_UNAVAILABLE");
    CHECK_THAT(e.fact(), Catch::Matchers::ContainsSubstring("no usable CUDA device"));
    CHECK_THAT(e.hint(), Catch::Matchers::ContainsSubstring("`device` auto"));
  }
}

TEST_CASE("the program without a GPU: --device cuda ends with 2, auto computes on the CPU", "[plugin]") {
  plugin_or_skip();
  namespace fs = std::filesystem;
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  const fs::path program =
      fs::exists(here / "onnx-amp-finetune") ? here / "onnx-amp-finetune" : here / "../onnx-amp-finetune";
  if (!fs::exists(program)) SKIP("there is no onnx-amp-finetune beside the tests");
  const TempDir folder;
  const std::string entry = zoo_entries().back().string(), out = folder / "out.safetensors";
  const auto run = [&](const std::string& device) {
    const std::string command =
        cat("CUDA_VISIBLE_DEVICES=-1 '", program.string(), "' predict '", entry, "/model.onnx' --inputs '", entry,
            "/batch.safetensors' --out '", out, "' --device ", device, " 2>&1");
    std::string text;
    FILE* pipe = popen(command.c_str(), "r");
    REQUIRE(pipe);
    for (char line[512]; std::fgets(line, sizeof line, pipe);) text += line;
    return std::pair(WEXITSTATUS(pclose(pipe)), text);
  };
  const auto [code, text] = run("cuda");
  CHECK(code == 2);
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring("E_DEVICE_UNAVAILABLE") &&
                       Catch::Matchers::ContainsSubstring("no usable CUDA device"));
  CHECK_FALSE(fs::exists(out));
  CHECK(run("auto").first == 0);
  CHECK(fs::exists(out));
  fs::remove(out);
}

// tools/gpu_check.py runs each operator in a separate process: after an illegal access, a process cannot use the
// device.
TEST_CASE("names of the operators", "[.operators]") {
  for (const auto& [op, spec] : op_specs()) std::puts(op.c_str());
}

TEST_CASE("GPU: kernels agree with the CPU's", "[gpu]") {
  // Never destroyed, because it must outlive the clean-up of CUDA's libraries.
  static const auto& device = *new std::shared_ptr<Device>(gpu_or_skip());
  const WithThreads one(1);
  for (const auto& [op, spec] : op_specs()) {
    DYNAMIC_SECTION(op) {
      for (size_t k = 0; k < spec.cases.size(); ++k) {
        for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
          agree_with_cpu(*device, op, spec.cases[k], type, k);
        }
      }
    }
  }
}

TEST_CASE("GPU: the update is the CPU's", "[gpu]") {
  const std::shared_ptr<Device> device = gpu_or_skip();
  const UpdateSetting s = GENERATE(from_range(update_settings()));
  check_update(*device, s);
}

TEST_CASE("GPU: models agree with PyTorch", "[gpu]") {
  // Never destroyed, because it must outlive the clean-up of CUDA's libraries.
  static const auto& device = *new std::shared_ptr<Device>(gpu_or_skip());
  for (const auto& entry : zoo_entries()) {
    DYNAMIC_SECTION(entry.filename().string()) {
      const Golden g(entry);
      check_gradients(g, *device);
      for (const auto& [method, run] : g.runs) check_trajectory(g, method, *device);
    }
  }
}

TEST_CASE("GPU: the same bits in every run and without CUDA graphs", "[gpu]") {
  static const auto& recording = *new std::shared_ptr<Device>(gpu_or_skip(true));
  static const auto& eager = *new std::shared_ptr<Device>(gpu_or_skip(false));
  const DType low = GENERATE(DType::f32, DType::f16, DType::bf16);
  for (const auto& entry : zoo_entries()) {
    DYNAMIC_SECTION(entry.filename().string() << ' ' << name_of(low)) {
      const Golden g(entry);
      const HostTensor once = trained(g, *recording, low, 6);
      CHECK(same_bits(once, trained(g, *recording, low, 6)));
      CHECK(same_bits(once, trained(g, *eager, low, 6)));
    }
  }
}

TEST_CASE("GPU: memory comes back", "[gpu]") {
  const std::shared_ptr<Device> device = gpu_or_skip();
  const Golden g(zoo_entries().front());
  // The first run also allocates state that the device keeps, such as the flag of its index checks.
  trained(g, *device, DType::f32, 3);
  const int64_t before = device->memory_in_use();
  trained(g, *device, DType::f32, 3);
  CHECK(device->memory_in_use() == before);
}
