// Faults of the file system: calls of this test program to rename, renameat2, read, pread, write, fsync and fdatasync
// pass through a hook, which can let them fail, shorten them, count them or end the process. Linked into the programs
// that name test_faults.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace amp::test {

struct FileCall {
  std::string name;  // "rename", "renameat2", "read", "pread", "write", "fsync", "fdatasync"
  std::string path;  // the old name, or the file of the descriptor
  std::string to;    // the new name
};
inline constexpr int kPass = 0;
inline constexpr int kShort = -1;  // read or write at most 3 bytes
inline constexpr int kKill = -2;   // end the process as SIGKILL would, with exit status 137

// `fault` returns one of these constants or an errno for each call. Only one object may exist at a time.
class Faults {
 public:
  explicit Faults(std::function<int(const FileCall&)> fault);
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;
  ~Faults();
  static bool available();  // false under sanitizers, which replace the same functions
};

}  // namespace amp::test
