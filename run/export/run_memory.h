// The memory of all phases of a run: the steps, and the exports before and after them.
#pragma once

#include <string>
#include <vector>

#include "run/prepare/memory.h"
#include "run/prepare/prepared_run.h"

namespace amp {

struct MemoryPhase {
  std::string name;
  int64_t bytes = 0;  // estimated host memory (CPU: the Session's, too), without the program's own
};

// Returns the phases in their order. On a GPU: only those that need host memory. The estimates are upper bounds.
std::vector<MemoryPhase> memory_phases(const PreparedRun& run, const SessionOptions& options, const MemoryBill& bill);

}  // namespace amp
