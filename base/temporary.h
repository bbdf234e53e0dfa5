// Removes temporary files and folders if a signal ends the process. Destructors do not run in that case.
#pragma once

#include <string>

namespace amp {

// While a TemporaryPath exists, remove_temporaries() removes its path: a file, or a folder with its contents. The
// newest path is removed first. At most 32 paths are registered; further paths, and very long ones, are ignored.
class TemporaryPath {
 public:
  explicit TemporaryPath(const std::string& path);
  TemporaryPath(const TemporaryPath&) = delete;
  TemporaryPath& operator=(const TemporaryPath&) = delete;
  ~TemporaryPath();  // unregisters the path without removing it

 private:
  int slot_ = -1;
};

void remove_temporaries();  // async-signal-safe; called by a process that is about to end

}  // namespace amp
