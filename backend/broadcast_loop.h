// Iteration over the elements of a tensor and operands that broadcast to it (NumPy rules): leading axes, and one
// inner run along which an operand has step 1 or 0. Any number of operands; backend/elementwise.h has a version for
// a fixed number.
#pragma once

#include <vector>

#include "base/shape.h"

namespace amp {

struct BroadcastLoop {
  int64_t outer = 1, inner = 1;  // rows, elements of a row
  Dims extent;                   // of the leading axes; adjacent axes that advance together in every operand are merged
  std::vector<Dims> stride;      // by operand, of the leading axes
  Dims inner_stride;             // by operand, 0 or 1

  // True if the operand has the result's layout, element by element.
  bool full(size_t operand) const;
};

BroadcastLoop make_broadcast_loop(const Dims& dims, const std::vector<Dims>& operands);

}  // namespace amp
