// Iteration over the elements of a tensor and of operands that broadcast to it (NumPy rules). The loop has leading axes
// and, inside of them, one inner run of elements, along which each operand advances by 1 or 0. It supports any number
// of operands; backend/elementwise.h has a version for a fixed number.
#pragma once

#include <vector>

#include "base/shape.h"

namespace amp {

struct BroadcastLoop {
  int64_t outer = 1, inner = 1;  // number of inner runs; number of elements in each run
  // Extents of the leading axes. Adjacent axes along which all operands advance together are merged.
  Dims extent;
  std::vector<Dims> stride;  // strides of the leading axes, by operand
  Dims inner_stride;         // stride of the inner run, by operand: 0 or 1

  // True if the operand has the same shape as the result, so that no element is broadcast.
  bool full(size_t operand) const;
};

BroadcastLoop make_broadcast_loop(const Dims& dims, const std::vector<Dims>& operands);

}  // namespace amp
