// How a Fused node's elements are mapped to threads. The pass that makes such nodes and the generator of their
// kernels share this code.
#pragma once

#include <string>
#include <vector>

#include "backend/broadcast_loop.h"
#include "backend/fused_program.h"
#include "ops/reduce_shape.h"

namespace amp {

// The only operator in a Fused node's program that is not elementwise. It sums an output of the node, and no step
// reads its result.
inline constexpr const char* kFusedSum = "ReduceSum";

// Convert the attributes of a ReduceSum to those in a Fused node's program, and back.
inline Attrs fused_sum_attrs(const Attrs& a) {
  std::string axes;
  for (const int64_t x : a.ints("axes")) axes += (axes.empty() ? "" : ",") + std::to_string(x);
  return {{"axes", axes}, {"keepdims", a.i("keepdims", 1)}};
}
inline Attrs sum_attrs(const Attrs& fused) {
  std::vector<int64_t> axes;
  const std::string text = fused.s("axes", "");
  for (size_t at = 0; at < text.size();) {
    size_t used = 0;
    axes.push_back(std::stoll(text.substr(at), &used));
    at += used + 1;
  }
  return {{"axes", axes}, {"keepdims", fused.i("keepdims", 1)}};
}

// True if threads may process four adjacent elements. dropout_rows: for each Dropout, the elements of a row.
inline bool in_fours(const BroadcastLoop& w, const std::vector<int64_t>& dropout_rows) {
  if (w.inner % 4 != 0) return false;
  for (size_t k = 0; k < w.stride.size(); ++k) {
    if (w.inner_stride[k] == 0) continue;
    for (const int64_t s : w.stride[k]) {
      if (s % 4 != 0) return false;
    }
  }
  for (const int64_t n : dropout_rows) {
    if (n % 4 != 0) return false;
  }
  return true;
}

// True for a sum that a Fused node may compute: it runs down columns, and each thread adds as many elements as in
// the sum's own kernel, so that the order of additions is the same.
inline bool can_sum_along(const ReduceShape& s, bool fours) { return s.by_columns() && (s.inner % 4 != 0 || fours); }

}  // namespace amp
