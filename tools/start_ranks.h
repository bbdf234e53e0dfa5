// Implements --gpus A,B without a launcher such as torchrun: starts this program once per GPU with torchrun's
// variables (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT).
#pragma once

#include <optional>

namespace amp {

struct RunSpec;

// Starts the ranks and waits for all of them. Returns the exit code of the first rank that failed by itself. If there
// is none, returns that of the first rank that ended because another one failed (exit code 10), or else 0. Returns
// nullopt if no ranks need to be started, so that this process does the work. Stop signals are passed to rank 0; all
// ranks then stop after the same step. After a failure the remaining ranks have the heartbeat timeout to end before
// they are killed. Rank 0 prints; the messages of another rank are only printed if rank 0 does not report the
// failure.
std::optional<int> start_ranks(const RunSpec& spec);

}  // namespace amp
