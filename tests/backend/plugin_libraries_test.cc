#include <catch2/catch_all.hpp>

#include "backend/plugin.h"
#include "tests/errors.h"

using namespace amp;

TEST_CASE("ONNX_AMP_CUDA_LIBRARIES names the libraries that a device uses", "[backend]") {
  const auto used = [](const char* names) {
    const PluginLibraries l = plugin_libraries(names);
    return cat(l.cublaslt ? "p" : "", l.cudnn ? "d" : "", l.nvrtc ? "r" : "");
  };
  CHECK(used(nullptr) == "pdr");
  CHECK(used("") == "pdr");
  CHECK(used("none").empty());
  CHECK(used("cudnn") == "d");
  CHECK(used("nvrtc,cublaslt") == "pr");
  CHECK(used("cublaslt,cudnn,nvrtc") == "pdr");
  for (const char* wrong : {"cublas", "none,cudnn", "cudnn,", "all"})
    test::expect_error(
        "E_USAGE", "ONNX_AMP_CUDA_LIBRARIES", [&] { plugin_libraries(wrong); }, Exit::usage);
}
