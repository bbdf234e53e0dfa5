// Tests whether repeated values occur in a regular order. Filters and transforms repeat values in mirrored, shifted or
// copied lines. Weights that were rounded to few levels (palettes, 4-bit integers, ternary weights) repeat them in
// random order.
#pragma once

#include "importer/discover/tensor_values.h"

namespace amp {

// With fewer elements the order is not significant.
constexpr int64_t kFewestArranged = 24;

// True if short runs along rows, columns or kernels recur (also mirrored or negated) clearly more often than in a
// random permutation of the same values. Returns true below kFewestArranged elements.
bool arranged(const TensorValues& v);

}  // namespace amp
