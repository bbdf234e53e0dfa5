// A reduction viewed as (outer, n, inner), where n is reduced. ops/cuda/reduce.cu and fused kernels must use the
// same view, so that they add in the same order.
#pragma once

#include <algorithm>
#include <vector>

#include "base/shape.h"

namespace amp {

inline Dims reduced_dims(const Dims& in, const std::vector<int64_t>& axes, bool keepdims) {
  Dims out;
  for (size_t d = 0; d < in.size(); ++d) {
    const bool gone = std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end();
    if (!gone)
      out.push_back(in[d]);
    else if (keepdims)
      out.push_back(1);
  }
  return out;
}

struct ReduceShape {
  int64_t outer = 1, n = 1, inner = 1;

  // `axes` must be adjacent, except that axes of extent 1 may be anywhere (ops/reduce.cc).
  ReduceShape(const Dims& dims, const std::vector<int64_t>& axes) {
    size_t lo = dims.size(), hi = 0;
    for (const int64_t axis : axes) {
      const auto d = static_cast<size_t>(axis);
      if (dims[d] == 1) continue;
      lo = std::min(lo, d);
      hi = std::max(hi, d);
    }
    for (size_t d = 0; d < dims.size(); ++d) (d < lo ? outer : d > hi ? inner : n) *= dims[d];
  }

  // Returns whether a GPU uses one thread per result: n is small, or there are enough results to fill the device.
  bool one_thread_per_result() const { return n <= 8 || (inner >= 32 && outer * inner >= 1 << 18); }
  bool operator==(const ReduceShape&) const = default;
  // Returns whether a GPU sums down columns (backend/cuda/columns.cuh).
  bool by_columns() const { return inner > 1 && !one_thread_per_result(); }
};

}  // namespace amp
