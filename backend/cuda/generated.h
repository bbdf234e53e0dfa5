// Kernels whose source is written at run time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backend/cuda/thread.cuh"

namespace amp::cuda {

struct GeneratedSource {
  std::string name;                // of the entry; a hash of the whole text is part of it
  std::vector<std::string> files;  // whose functors it calls (backend/functor_texts.h)
  std::string body;                // in a namespace of its own
  bool cooperative = false;        // threads of a block meet
  size_t words = 0;                // of the entry's one argument, a struct of 64-bit words
};

// Self-contained: what all begin with, the functors, the bodies.
std::string whole_text(const std::vector<GeneratedSource>& sources);

// Launches it. Empty where the device compiles nothing; false from a launch: compiling had failed, nothing was
// launched.
using GeneratedKernel = std::function<bool(const Grid&, const std::vector<uint64_t>& words)>;

}  // namespace amp::cuda
