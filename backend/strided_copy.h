// Copies between a contiguous tensor and a strided region of another, any rank: what Slice, Concat, Split, Pad and
// Expand are made of.
#pragma once

#include "backend/kernel.h"

namespace amp {

// A region of a tensor: start offset in elements and a stride per dim (0 repeats, negative walks backwards).
struct Region {
  int64_t offset = 0;
  Dims strides;
};

// The axes of such a copy, outermost first: at least one, those of extent 1 left out, neighbours merged where both
// sides allow it.
struct CopyWalk {
  std::vector<int64_t> n, from, to;
};
CopyWalk copy_walk(const Dims& dims, const Dims& from, const Dims& to);

// dst[dst region] = src[src region] over dims; the element types are equal.
Kernel strided_copy(const Tensor& src, const Region& from, const Tensor& dst, const Region& to, const Dims& dims);

}  // namespace amp
