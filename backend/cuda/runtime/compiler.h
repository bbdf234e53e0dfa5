// Compiles generated kernels (backend/cuda/generated.h) by NVRTC, caches the machine code in files and loads it.
// Without NVRTC compile() returns an empty kernel, and one warning is printed.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "backend/cuda/generated.h"

namespace amp::cuda {

class Compiler {
 public:
  // stream: a cudaStream_t. Compiled code is cached in `folder`; empty: no cache.
  Compiler(void* stream, const std::string& architecture, const std::string& folder);
  ~Compiler();
  // Returns a kernel and starts to compile it on a background thread. The first launch waits for the compilation.
  GeneratedKernel compile(const GeneratedSource& source);

 private:
  struct Entry;
  std::shared_ptr<Entry> entry(const GeneratedSource& source);

  void* stream_;
  std::string architecture_, folder_;
  std::map<std::string, std::shared_ptr<Entry>> entries_;
};

}  // namespace amp::cuda
