// Compiles generated kernels with the host's C++ compiler for the emulator, and loads them into this program.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/emulator/emulated_device.h"
#include "tests/support.h"

namespace amp::test {

// A value for make_emulated_device()->compiler. It collects sources; the first launch of a kernel that is not compiled
// yet compiles all of them at once.
class HostCompiler {
 public:
  static bool present();  // whether this machine has a compiler
  cuda::GeneratedKernel operator()(const cuda::GeneratedSource& s);
  size_t compiled() const { return entries_.size(); }

 private:
  using Entry = void (*)(const void* words);
  Entry entry(const std::string& name);

  TempDir folder_;
  std::vector<cuda::GeneratedSource> waiting_;
  std::map<std::string, Entry> entries_;
  int files_ = 0;
};

}  // namespace amp::test
