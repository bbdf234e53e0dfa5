// The real GPU for tests. Without one they are skipped, with the reason.
#pragma once

#include <memory>
#include <string>

#include "backend/plugin.h"
#include "tests/support.h"

namespace amp::test {

// Searches the folder of the test, the folder above it (a build folder), and ONNX_AMP_CUDA_PLUGIN.
const PluginApi& plugin_or_skip();
std::shared_ptr<Device> gpu_or_skip(bool graphs = true);

}  // namespace amp::test
