// Copies between a contiguous tensor and a strided region of another, for any rank. Slice, Concat, Split, Pad and
// Expand are built from them.
#pragma once

#include "backend/kernel.h"

namespace amp {

// A region of a tensor: a start offset in elements and a stride per dim (0 repeats, negative strides go backwards).
struct Region {
  int64_t offset = 0;
  Dims strides;
};

// The axes of a strided copy, outermost first; at least one. Axes of extent 1 are removed, and adjacent axes are merged
// if the strides of both tensors allow it.
struct CopyWalk {
  std::vector<int64_t> n, from, to;
};
CopyWalk copy_walk(const Dims& dims, const Dims& from, const Dims& to);

// Returns a kernel that copies src[from] to dst[to] over dims. The element types are equal.
Kernel strided_copy(const Tensor& src, const Region& from, const Tensor& dst, const Region& to, const Dims& dims);

}  // namespace amp
