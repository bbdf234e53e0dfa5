// What the tests of every room need: where a checkout's files are, and a folder that goes away with its test.
#pragma once

#include <filesystem>
#include <string>

namespace amp::test {

// Only tests/support.cc is compiled with these paths, so that no other object depends on where the checkout lies.
std::string source_root();                            // the checkout
std::string test_data(const std::string& name = {});  // tests/data/NAME, or below ONNX_AMP_TEST_DATA
std::string onnx_test_data();                         // ONNX's own backend test data
std::string host_compiler();                          // the C++ compiler of this build
bool sanitized();  // this build reserves terabytes of addresses, and is slower: no limits of memory can be tested

// A new, empty folder among the system's temporary ones.
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
