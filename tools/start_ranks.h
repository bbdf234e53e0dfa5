// --gpus A,B without a launcher: this program once more for each GPU, with torchrun's variables (RANK, WORLD_SIZE,
// LOCAL_RANK, MASTER_ADDR, MASTER_PORT).
#pragma once

#include <optional>

#include "run/spec/spec.h"

namespace amp {

// Waits for all of them. The exit code of the first that failed by itself, else of the first that another's failure
// ended (10), else 0; none: there is nothing to start, this process does the work. A stop signal is passed on to the
// first rank, by which all ranks stop after the same step; once one has failed the others get the heartbeat's time to
// end before they are killed. The first rank speaks; of the others is told what the first one does not know.
std::optional<int> start_ranks(const RunSpec& spec);

}  // namespace amp
