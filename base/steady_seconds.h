// Seconds of the clock that never goes back, since a moment that is the process's own.
#pragma once

#include <chrono>

namespace amp {

inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace amp
