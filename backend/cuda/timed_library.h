// What all guarded libraries have in common: a name, a key, and a clock that says whether they are worth it.
#pragma once

#include <optional>
#include <string>

#include "backend/device.h"

namespace amp::cuda {

class TimedLibrary {
 public:
  virtual ~TimedLibrary() = default;
  virtual std::string name() const = 0;  // "cuDNN", for messages
  virtual bool may_wait() const = 0;     // false while launches are recorded
  // Everything that decides what is computed, how, and how fast. What is found out about one of them holds for all with
  // its key (CudaDevice::judge); empty: it is not shared.
  virtual std::string key() const { return {}; }
  // That the device takes for some work, without what its launches cost the host: as in a recorded step.
  virtual double milliseconds(const Kernel& work) = 0;
  // Whether the library is faster than the project's own kernels, as this GPU is remembered: unknown at first.
  virtual std::optional<bool> known_faster() const = 0;
  virtual void remember(bool faster) = 0;
};

// Times both where it is not known.
inline bool is_faster(TimedLibrary& library, const Kernel& theirs, const Kernel& own) {
  if (const std::optional<bool> known = library.known_faster()) return *known;
  const double its = library.milliseconds(theirs), ours = library.milliseconds(own);
  library.remember(its < ours);
  return its < ours;
}

}  // namespace amp::cuda
