// Kernels whose source is generated at run time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backend/cuda/thread.cuh"

namespace amp::cuda {

struct GeneratedSource {
  std::string name;                // the entry point; it contains a hash of the whole text
  std::vector<std::string> files;  // files whose functors the kernel calls (backend/functor_texts.h)
  std::string body;                // is put in a separate namespace
  bool cooperative = false;        // threads of a block synchronize
  size_t words = 0;                // number of 64-bit words in the entry point's only argument, a struct
};

// Returns the self-contained source: the common prelude, the functors, the bodies.
std::string whole_text(const std::vector<GeneratedSource>& sources);

// Launches the kernel. Empty if the device has no compiler. A launch returns false if compiling had failed; then
// nothing was launched.
using GeneratedKernel = std::function<bool(const Grid&, const std::vector<uint64_t>& words)>;

}  // namespace amp::cuda
