// Files and folders that must not outlive a process that a signal ends: destructors do not run then.
#pragma once

#include <string>

namespace amp {

// While it lives, remove_temporaries() removes the path: a file, or a folder that is empty by then. The last one made
// is removed first. Beyond 32 at a time, or for very long paths, nothing is promised.
class TemporaryPath {
 public:
  explicit TemporaryPath(const std::string& path);
  TemporaryPath(const TemporaryPath&) = delete;
  TemporaryPath& operator=(const TemporaryPath&) = delete;
  ~TemporaryPath();  // forgets the path; whoever made it removes or keeps it

 private:
  int slot_ = -1;
};

void remove_temporaries();  // async-signal-safe: the process is about to end

}  // namespace amp
