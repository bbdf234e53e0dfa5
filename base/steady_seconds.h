// Returns the seconds of the monotonic clock since an arbitrary start.
#pragma once

#include <chrono>

namespace amp {

inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace amp
