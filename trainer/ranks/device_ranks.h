// The ranks of a run, joined by their devices: by the device's library where it has one, else through the host.
#pragma once

#include <memory>

#include "backend/device.h"
#include "trainer/collective.h"
#include "trainer/ranks/gradient_sums.h"

namespace amp {

// By all ranks together, of which there are several; ranks outlives what is returned. E_RANKS: some are on the CPU,
// some on GPUs. E_NCCL. early: of gradients in the host's memory, which it sums during backward; or null. gradients: of
// a device that has memory of its own.
std::unique_ptr<DeviceRanks> join_devices(Device& device, Collective& ranks, GradientSums* early = nullptr,
                                          const SentGradients& gradients = {});

// The same of ranks that take steps of their own between averages of their weights (local SGD).
std::unique_ptr<DeviceRanks> join_local(Device& device, Collective& ranks);

}  // namespace amp
