// Selects and opens the device of a run.
#pragma once

#include <optional>

#include "backend/plugin.h"
#include "base/log.h"

namespace amp {

struct DeviceSpec;
struct DistributionSpec;

// Returns the GPU that `device` cuda requests or `device` auto finds, else the CPU. fp64 always runs on the CPU. The
// GPU is opened once per process. Throws E_DEVICE_UNAVAILABLE with the reason if a requested GPU cannot be used.
Device& choose_device(const DeviceSpec& spec, const DistributionSpec& distribution, bool fp64, const Log& log);

// Returns the memory of a GPU that choose_device() returned; nullopt for the CPU.
std::optional<PluginMemory> memory_of(const Device& device);
// Returns the bytes that the device's libraries may allocate while the graph runs; 0 on the CPU.
int64_t library_bytes(const Device& device, const Graph& g);

}  // namespace amp
