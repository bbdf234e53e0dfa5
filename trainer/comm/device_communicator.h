// Creates the DeviceCommunicator of a run: the device's library (NCCL) if it has one, else through host memory.
#pragma once

#include <memory>

#include "backend/device.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/gradient_reducer.h"

namespace amp {

// Collective; for several ranks. `ranks` must outlive the result. early: reducer of gradients in host memory that sums
// during backward, or null. gradients: for a device with its own memory. Throws E_RANKS if some ranks use the CPU and
// some a GPU, and E_NCCL.
std::unique_ptr<DeviceCommunicator> join_devices(Device& device, Communicator& ranks, GradientReducer* early = nullptr,
                                                 const CompressedGradients& gradients = {});

// For local SGD: ranks make local steps between averages of their weights.
std::unique_ptr<DeviceCommunicator> join_local(Device& device, Communicator& ranks);

}  // namespace amp
