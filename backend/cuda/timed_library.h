// The common base of planned library calls that replace the project's kernels: a name, a key, and a timer that decides
// whether the library is faster.
#pragma once

#include <optional>
#include <string>

#include "backend/device.h"

namespace amp::cuda {

class TimedLibrary {
 public:
  virtual ~TimedLibrary() = default;
  virtual std::string name() const = 0;  // name for messages, such as "cuDNN"
  virtual bool may_wait() const = 0;     // false while launches are recorded, because the host cannot wait then
  // Returns a string of everything that determines the result and the time of the call. A decision about one call holds
  // for all calls with the same key (CudaDevice::store_decision). Empty: decisions are not shared.
  virtual std::string key() const { return {}; }
  // Returns the device time of the work in milliseconds, as in a recorded step, without the host's cost of launches.
  virtual double milliseconds(const Kernel& work) = 0;
  // Returns whether the library is faster than the project's kernels; nullopt if no decision is stored for this GPU.
  virtual std::optional<bool> known_faster() const = 0;
  virtual void remember(bool faster) = 0;
};

// Returns the stored decision. If there is none, times `theirs` and `own`, and stores which is faster.
inline bool is_faster(TimedLibrary& library, const Kernel& theirs, const Kernel& own) {
  if (const std::optional<bool> known = library.known_faster()) return *known;
  const double its = library.milliseconds(theirs), ours = library.milliseconds(own);
  library.remember(its < ours);
  return its < ours;
}

}  // namespace amp::cuda
