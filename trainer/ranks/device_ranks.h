// The ranks of a run, joined by their devices: by the device's library where it has one, else through the host.
#pragma once

#include <memory>

#include "backend/device.h"
#include "trainer/collective.h"
#include "trainer/ranks/gradient_sums.h"

namespace amp {

// By all ranks together, of which there are several; ranks outlives what is returned. E_RANKS: some are on the CPU,
// some on GPUs. E_NCCL. early: of gradients in the host's memory that are summed during backward; or null.
std::unique_ptr<DeviceRanks> join_devices(Device& device, Collective& ranks, GradientSums* early = nullptr);

// Of ranks that take steps of their own between averages (local SGD), on the CPU: loss sums are those of all, gradients
// and statistics stay a rank's own; but what is not finite on one rank becomes so on all of them, which skip together.
std::unique_ptr<DeviceRanks> join_losses(Device& device, Collective& ranks);

}  // namespace amp
