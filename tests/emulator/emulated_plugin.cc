// The emulated CUDA device as a plugin in a separate shared library. In test_cuda, program and device are one binary,
// which hides that a plugin lacks the program's tables of operators, losses and optimizers.
#include "backend/cuda/convolution.h"
#include "backend/plugin.h"
#include "tests/emulator/emulated_device.h"

namespace amp::cuda {

namespace {

Device* open(const PluginOptions&) { return make_emulated_device().release(); }

bool has_kernel(const char* op) { return find_kernel(DeviceKind::cuda, op) != nullptr; }

PluginMemory memory(const Device&) {
  constexpr int64_t kTotal = int64_t{8} << 30;
  return {kTotal, kTotal, 0, 0};
}

int64_t reserve(const Graph& g) { return uses_convolution_library(g) ? 1 << 20 : 0; }

}  // namespace

}  // namespace amp::cuda

extern "C" __attribute__((visibility("default"))) const amp::PluginApi* onnx_amp_cuda_plugin() {
  static const amp::PluginApi api{amp::kPluginAbi, amp::cuda::open, amp::cuda::has_kernel, amp::cuda::memory,
                                  amp::cuda::reserve};
  return &api;
}
