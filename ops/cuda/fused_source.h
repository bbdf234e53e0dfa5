// The source of a Fused node's kernel. A thread takes one element, or four neighboring elements, through all steps in
// registers. The text is the same for all shapes that broadcast in the same way; extents, strides and addresses are
// arguments. NVRTC compiles the text on a device; the C++ compiler compiles it for tests with the emulator. If the
// node has sums, a thread takes the rows of its columns, and columns.cuh sums them.
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
  std::vector<uint64_t> words;  // the kernel's arguments
  int64_t groups = 0;           // number of groups of one or four elements; a thread takes one group
};

struct FusedSums {
  std::vector<size_t> outputs;  // indices of those outputs of the node that are sums
  std::vector<size_t> of;       // for each sum, the index of the output that is summed
  ReduceShape shape;
  ColumnTiles tiles;
};
std::optional<FusedSums> fused_sums(const KernelArgs& a);

// Returns the source and the arguments of the node's kernel. partial: if there are several splits, workspace of
// tiles.splits * shape.outer * shape.inner numbers for each sum.
FusedLaunch fused_launch(const KernelArgs& a, const std::optional<FusedSums>& sums, void* partial);

}  // namespace amp::cuda
