// Ranks as processes that mpirun or srun started. A plugin, libonnx_amp_mpi.so, is linked with MPI and loaded from the
// executable's folder if such a launcher is present. So the program also runs where MPI is not installed.
//
// MPI only transports messages (message_communicator.h).
#pragma once

#include <cstdint>
#include <functional>

#include "trainer/comm/message_communicator.h"

namespace amp {

constexpr int kMpiAbi = 1;

// Functions of the plugin. Each returns null, or the reason of a failure.
struct MpiApi {
  int abi;  // stays the first member
  const char* (*start)(int* rank, int* size);
  // Sends and receives messages and waits for all of them, mostly sleeping. Messages between two ranks arrive in order.
  const char* (*exchange)(const RankMessage* sent, int64_t sends, const RankMessage* received, int64_t receives);
  const char* (*end)();     // collective
  void (*abort)(int code);  // ends every process of the job
};

// Returns whether an MPI launcher started this process.
bool started_by_mpi();

// Starts MPI and returns the communicator of the run. Call it once per process. Throws E_MPI (exit 10) if there is no
// plugin or MPI does not start. The communicator is not destroyed: a process that fails exits without MPI_Finalize,
// which makes the launcher end the other processes.
Communicator& start_mpi();
// Waits for all ranks, calls meanwhile(), and finalizes MPI.
void end_mpi(const std::function<void()>& meanwhile);

}  // namespace amp
