// Creates the DeviceCommunicator of a run. It uses the device's library (NCCL) if there is one, else host memory.
#pragma once

#include <memory>

#include "backend/device.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/gradient_reducer.h"

namespace amp {

// Collective; requires several ranks. `ranks` must outlive the result. early: reducer of gradients in host memory that
// sums during backward, or null. gradients: compression of sums for a device with its own memory. Throws E_RANKS if
// some ranks use the CPU and some a GPU, and E_NCCL if NCCL fails.
std::unique_ptr<DeviceCommunicator> join_devices(Device& device, Communicator& ranks, GradientReducer* early = nullptr,
                                                 const CompressedGradients& gradients = {});

// As join_devices(), for local SGD: ranks make local steps and average their weights from time to time.
std::unique_ptr<DeviceCommunicator> join_local(Device& device, Communicator& ranks);

}  // namespace amp
