// Where a run computes: --device.
#pragma once

#include <optional>

#include "backend/device.h"
#include "tools/cli/options.h"

namespace amp {

// The CPU, or the GPU that --device cuda asks for or --device auto finds. Opened once. E_DEVICE_UNAVAILABLE says why not.
Device& choose_device(const cli::Options& opts);

// Bytes that a GPU has free; none for the CPU.
std::optional<int64_t> memory_free(const Device& device);

}  // namespace amp
