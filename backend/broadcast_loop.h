// The iteration over a tensor's elements together with operands that broadcast to it (NumPy): leading axes, and one
// inner run along which an operand steps by 1 or stays. For any number of operands; backend/elementwise.h has the same
// for a fixed one.
#pragma once

#include <vector>

#include "base/shape.h"

namespace amp {

struct BroadcastLoop {
  int64_t outer = 1, inner = 1;  // rows, elements of a row
  Dims extent;                   // of the leading axes; neighbours that advance together in every operand are one
  std::vector<Dims> stride;      // by operand, of the leading axes
  Dims inner_stride;             // by operand, 0 or 1

  // The operand lies element by element where the result does.
  bool full(size_t operand) const;
};

BroadcastLoop make_broadcast_loop(const Dims& dims, const std::vector<Dims>& operands);

}  // namespace amp
