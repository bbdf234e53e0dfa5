// Generated kernels compiled by the C++ compiler for the emulator, and called from this program.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backend/cuda/emulated_device.h"
#include "tests/support.h"

namespace amp::test {

// What make_emulated_device()->compiler may be. Sources are collected; the first launch of one that is not compiled yet
// compiles all of them at once.
class HostCompiler {
 public:
  static bool present();  // a compiler is on this machine
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
