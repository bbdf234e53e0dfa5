// Host: the services that the calling program gives to a job: log, progress, stop signals, ranks.
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
  std::function<void(const ProgressState&)> progress;  // called after each step, and once at the end
  // Signals that stop training after the current step, with a checkpoint. The process's handlers are restored
  // afterwards.
  std::vector<int> stop_signals;
  // Ranks of a training run. Only the first rank owns the run's folder.
  Communicator* ranks = &one_rank();
  // Called when the activity of this process changes. phase: a string literal.
  std::function<void(int64_t step, const char* phase)> doing = {};
  // Polled after each training step; true stops training as a signal does, with a checkpoint.
  std::function<bool()> stop = {};
};

}  // namespace amp
