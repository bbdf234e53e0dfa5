// The real device for tests. Where there is none they skip, and say why.
#pragma once

#include <memory>
#include <string>

#include "backend/plugin.h"
#include "tests/support.h"

namespace amp::test {

// Beside the test, above it (a build folder), or where ONNX_AMP_CUDA_PLUGIN says.
const PluginApi& plugin_or_skip();
std::shared_ptr<Device> gpu_or_skip(bool graphs = true);

}  // namespace amp::test
