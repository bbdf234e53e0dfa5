// Shapes: row-major dims, and arithmetic on dims that detects overflow.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace amp {

using Dims = std::vector<int64_t>;

std::string to_string(std::span<const int64_t> dims);  // "[8,128,384]"
int64_t checked_mul(int64_t a, int64_t b);             // returns a * b; throws Exit::model on overflow
// Returns the product of the dims; 1 for a scalar. Throws Exit::model for negative dims and on overflow.
int64_t numel(std::span<const int64_t> dims);
int64_t normalize_axis(int64_t axis, int64_t rank);  // -1 becomes rank - 1; throws Exit::model if out of range
// Returns the broadcast shape by NumPy's rule; throws Exit::model on a mismatch
Dims broadcast(std::span<const int64_t> a, std::span<const int64_t> b);
Dims row_major_strides(std::span<const int64_t> dims);

}  // namespace amp
