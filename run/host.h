// What a job needs of the program that asks for it: where messages and progress go, and whether it may be stopped.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/log.h"
#include "trainer/comm/communicator.h"
#include "trainer/loop/progress_state.h"

namespace amp {

struct Host {
  Log log;
  std::function<void(const ProgressState&)> progress;  // after each step, and once when there are no more
  // Signals on which training ends after its step, with a checkpoint; the process's handlers are back afterwards.
  std::vector<int> stop_signals;
  // Of a training run: what rank this process is. Only the first one has the run's folder.
  Communicator* ranks = &one_rank();
  // What this process does from now on; phase: a literal.
  std::function<void(int64_t step, const char* phase)> doing = {};
};

}  // namespace amp
