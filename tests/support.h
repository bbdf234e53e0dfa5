// Helpers for the tests of all modules: paths in the checkout, and a temporary folder.
#pragma once

#include <filesystem>
#include <string>

namespace amp::test {

// Paths. Only tests/support.cc is compiled with them, so that no other object depends on the checkout's location.
std::string source_root();                            // the checkout
std::string test_data(const std::string& name = {});  // tests/data/NAME, or below ONNX_AMP_TEST_DATA
std::string onnx_test_data();                         // ONNX's own backend test data
std::string host_compiler();                          // the C++ compiler of this build
// Returns why a limit of the address space (RLIMIT_AS) has no effect; empty if it has. Sanitizers reserve terabytes,
// and QEMU's user mode accepts limits and ignores them.
std::string no_memory_limits();

// A new, empty folder in the system's temporary folder; the destructor removes it.
class TempDir {
 public:
  TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir();
  std::string operator/(const std::string& name) const { return (path / name).string(); }

  std::filesystem::path path;
};

}  // namespace amp::test
