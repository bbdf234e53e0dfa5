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
  std::string body;                // the kernel's code; is placed in a separate namespace
  bool cooperative = false;        // true if the threads of a block synchronize
  size_t words = 0;                // number of 64-bit words in the entry point's only argument, a struct
};

// Returns a self-contained source text: the common prelude, the functors and the bodies.
std::string whole_text(const std::vector<GeneratedSource>& sources);

// A function that launches a generated kernel; empty if the device has no compiler. It returns false if compiling has
// failed; nothing was launched then.
using GeneratedKernel = std::function<bool(const Grid&, const std::vector<uint64_t>& words)>;

}  // namespace amp::cuda
