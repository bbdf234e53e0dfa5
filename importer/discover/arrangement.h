// Whether repeated values stand in a regular order. Filters and transforms repeat values in mirrored, shifted or copied
// lines; weights that were rounded to few levels (palettes, 4-bit integers, ternary weights) repeat them in no order.
#pragma once

#include "importer/discover/tensor_values.h"

namespace amp {

// Fewer elements say nothing about their order.
constexpr int64_t kFewestArranged = 24;

// True when short runs along rows, columns or kernels recur (also mirrored or negated) clearly more often than in a
// random permutation of the same values.
bool arranged(const TensorValues& v);

}  // namespace amp
