// The ranks of a run, joined by their devices: by the device's library where it has one, else through the host.
#pragma once

#include <memory>

#include "backend/device.h"
#include "trainer/collective.h"

namespace amp {

// By all ranks together, of which there are several; ranks outlives what is returned. E_RANKS: some are on the CPU,
// some on GPUs. E_NCCL.
std::unique_ptr<DeviceRanks> join_devices(Device& device, Collective& ranks);

}  // namespace amp
