// Tests whether repeated values of a tensor occur in a regular order. Filters and transforms repeat runs of values:
// mirrored, shifted or copied. Weights that were rounded to few levels (palettes, 4-bit integers, ternary weights)
// repeat values in random order.
#pragma once

#include "importer/discover/tensor_values.h"

namespace amp {

// The order of fewer elements than this is not significant.
constexpr int64_t kFewestArranged = 24;

// True if short runs of neighboring elements along rows, columns or kernels recur (also mirrored or negated) clearly
// more often than in a random permutation of the same values. Returns true below kFewestArranged elements.
bool arranged(const TensorValues& v);

// While an object exists, arranged() stores its results for tensors of this thread, and keeps the tensors in memory.
// Several kinds of evidence ask for the same tensor.
class StoredArrangements {
 public:
  StoredArrangements();
  ~StoredArrangements();
  StoredArrangements(const StoredArrangements&) = delete;
  StoredArrangements& operator=(const StoredArrangements&) = delete;
};

}  // namespace amp
