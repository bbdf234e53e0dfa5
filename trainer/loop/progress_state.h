// How far a run is, for people.
#pragma once

#include <cstdint>

namespace amp {

struct ProgressState {
  int64_t step = 0, total = 0;  // attempted steps done, and of the whole run (0: unknown)
  int64_t first_step = 0;       // where this process began: a resumed run estimates from its own speed
  double epoch = 0, loss = 0, lr = 0;
  double samples_per_s = 0;
  int64_t skipped = 0;  // steps skipped so far
  int64_t memory = 0;   // peak resident bytes so far
  double seconds = 0;   // since this process began training
  bool over = false;    // no more steps are done; nothing else is said
};

}  // namespace amp
