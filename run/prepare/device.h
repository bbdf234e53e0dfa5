// Selects and opens the device of a run.
#pragma once

#include <optional>

#include "backend/plugin.h"
#include "base/log.h"

namespace amp {

struct DeviceSpec;
struct DistributionSpec;

// Returns the CPU (fp64 always runs there), or the GPU that --device cuda requests or --device auto finds. The GPU is
// opened once per process. E_DEVICE_UNAVAILABLE states the reason.
Device& choose_device(const DeviceSpec& spec, const DistributionSpec& distribution, bool fp64, const Log& log);

// Memory of a GPU that choose_device() returned; nullopt for the CPU.
std::optional<PluginMemory> memory_of(const Device& device);
// Bytes that the device's libraries may allocate while the graph runs; 0 on the CPU.
int64_t library_bytes(const Device& device, const Graph& g);

}  // namespace amp
