// The source of a Fused node's kernel: a thread takes one element, or four neighbours, through all steps in registers. The text
// is the same for all shapes that broadcast alike; extents, strides and addresses are arguments. NVRTC compiles it on a device,
// the C++ compiler for the emulator's tests.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cuda/generated.h"
#include "backend/kernel.h"

namespace amp::cuda {

struct FusedLaunch {
  GeneratedSource source;
  std::vector<uint64_t> words;  // the arguments
  int64_t groups = 0;           // of one or four elements: a thread's share
};

// Addresses may be null: then only source and groups mean something.
FusedLaunch fused_launch(const KernelArgs& a);

}  // namespace amp::cuda
