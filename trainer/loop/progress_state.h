// ProgressState: the progress of a run, for progress bars and logs.
#pragma once

#include <cstdint>

namespace amp {

struct ProgressState {
  int64_t step = 0, total = 0;  // attempted steps so far, and of the whole run (0: unknown)
  // index of the first step of this process; the remaining time is estimated from the speed since then
  int64_t first_step = 0;
  double epoch = 0, loss = 0, lr = 0;
  double samples_per_s = 0;
  int64_t skipped = 0;  // steps skipped so far
  int64_t memory = 0;   // peak resident bytes so far
  double seconds = 0;   // since this process began training
  bool over = false;    // training has ended; the other fields are not set
};

}  // namespace amp
