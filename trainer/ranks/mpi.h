// Ranks that are processes, as mpirun or srun started them. MPI itself lies in a plugin, libonnx_amp_mpi.so, that is
// loaded from beside the executable when such a launcher is there: the program runs where no MPI is installed.
//
// All that is asked of MPI is to carry messages (message_rank.h).
#pragma once

#include <cstdint>
#include <functional>

#include "trainer/ranks/message_rank.h"

namespace amp {

constexpr int kMpiAbi = 1;

// Each returns null, or why it failed.
struct MpiApi {
  int abi;  // stays the first member
  const char* (*start)(int* rank, int* size);
  // Messages of two ranks arrive in the order in which they were sent. Waits for all, asleep for most of the time.
  const char* (*exchange)(const RankMessage* sent, int64_t sends, const RankMessage* received, int64_t receives);
  const char* (*end)();     // by all ranks together
  void (*abort)(int code);  // ends every process of the job
};

// Whether a launcher started this process as one of several (or of one).
bool started_by_mpi();

// E_MPI (exit 10): no plugin, or MPI does not start. Once in a process. The object is never destroyed: a process that
// fails leaves MPI without a word, which is how a launcher knows that the others are to be ended.
Collective& start_mpi();
// Waits until all ranks are here, and need each other no more; then calls meanwhile, and ends MPI.
void end_mpi(const std::function<void()>& meanwhile);

}  // namespace amp
