// The source of a Fused node's kernel: a thread takes one element, or four neighbors, through all steps in registers.
// The text is the same for all shapes that broadcast alike; extents, strides and addresses are arguments. NVRTC
// compiles it on a device,
// the C++ compiler for the emulator's tests. With sums, a thread takes rows of its columns, and columns.cuh adds up.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backend/cuda/columns.cuh"
#include "backend/cuda/generated.h"
#include "backend/kernel.h"
#include "ops/reduce_shape.h"

namespace amp::cuda {

struct FusedLaunch {
  GeneratedSource source;
  std::vector<uint64_t> words;  // the arguments
  int64_t groups = 0;           // of one or four elements: a thread's share
};

struct FusedSums {
  std::vector<size_t> outputs;  // which outputs of the node are sums
  std::vector<size_t> of;       // and which outputs they are sums of
  ReduceShape shape;
  ColumnTiles tiles;
};
std::optional<FusedSums> fused_sums(const KernelArgs& a);

// partial: tiles.splits * shape.outer * shape.inner numbers for each sum, where there are splits.
FusedLaunch fused_launch(const KernelArgs& a, const std::optional<FusedSums>& sums, void* partial);

}  // namespace amp::cuda
