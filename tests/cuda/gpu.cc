#include "tests/cuda/gpu.h"

#include <catch2/catch_all.hpp>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"

namespace amp::test {

namespace fs = std::filesystem;

static void name_plugin() {
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path(), above = here / "../libonnx_amp_cuda.so";
  if (!std::getenv("ONNX_AMP_CUDA_PLUGIN") && !fs::exists(here / "libonnx_amp_cuda.so") && fs::exists(above)) {
    setenv("ONNX_AMP_CUDA_PLUGIN", above.c_str(), 1);
  }
}

// Returns open(), or skips the test if there is no GPU. Other errors fail the test.
template <class F>
static decltype(auto) or_skip(const F& open) {
  name_plugin();
  try {
    return open();
  } catch (const Error& e) {
    if (e.id() != "E_DEVICE_UNAVAILABLE") throw;
    SKIP(e.fact());
    throw;  // not reached: SKIP throws
  }
}

const PluginApi& plugin_or_skip() {
  return or_skip([]() -> const PluginApi& { return load_plugin(); });
}

std::shared_ptr<Device> gpu_or_skip(bool graphs) {
  PluginOptions o;
  o.graphs = graphs;
  return or_skip([&] { return open_cuda(o); });
}

}  // namespace amp::test
