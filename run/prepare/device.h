// Where a run computes.
#pragma once

#include <optional>

#include "backend/plugin.h"
#include "base/log.h"
#include "run/spec/spec.h"

namespace amp {

// The CPU (always for fp64), or the GPU that --device cuda asks for or --device auto finds. Opened once.
// E_DEVICE_UNAVAILABLE says why not.
Device& choose_device(const RunSpec& spec, bool fp64, const Log& log);

// Of a GPU that choose_device() gave; none for the CPU.
std::optional<PluginMemory> memory_of(const Device& device);
// What the libraries of a device may ask for while a graph runs; 0 on the CPU.
int64_t library_bytes(const Device& device, const Graph& g);

}  // namespace amp
