#include "run/device.h"

#include <cstdlib>
#include <memory>

#include "backend/plugin.h"
#include "base/error.h"

namespace amp {

static std::shared_ptr<Device> open(const RunSpec& spec) {
  PluginOptions o;
  o.tf32 = spec.tf32;
  if (const char* off = std::getenv("ONNX_AMP_CUDA_GRAPHS"); off && std::string(off) == "0") o.graphs = false;
  return open_cuda(o);
}

Device& choose_device(const RunSpec& spec, bool fp64, const Log& log) {
  const std::string& asked = spec.device;
  if (asked == "cuda" && fp64) fail(Exit::usage, "E_DTYPE", "--dtype fp64 is not computed on CUDA", "use --device cpu");
  if (asked == "cpu" || fp64) return cpu_device();
  // Never destroyed: at exit the CUDA libraries may be gone before us.
  static auto& device = *new std::shared_ptr<Device>;
  if (device) return *device;
  try {
    device = open(spec);
  } catch (const Error& e) {
    if (asked == "cuda" || e.id() != "E_DEVICE_UNAVAILABLE") throw;
    return cpu_device();
  }
  log.info(cat("device: ", device->description()));
  return *device;
}

std::optional<PluginMemory> memory_of(const Device& device) {
  if (&device == &cpu_device()) return {};
  return load_plugin().memory(device);
}

int64_t library_bytes(const Device& device, const Graph& g) {
  return &device == &cpu_device() ? 0 : load_plugin().reserve(g);
}

}  // namespace amp
