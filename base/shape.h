// Shapes: row-major dims with overflow-checked arithmetic.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace amp {

using Dims = std::vector<int64_t>;

std::string to_string(std::span<const int64_t> dims);  // "[8,128,384]"
int64_t checked_mul(int64_t a, int64_t b);             // Exit::model on overflow
// The product; 1 for a scalar. Negative dims and overflow: Exit::model.
int64_t numel(std::span<const int64_t> dims);
int64_t normalize_axis(int64_t axis, int64_t rank);                      // -1 -> rank-1; out of range: Exit::model
Dims broadcast(std::span<const int64_t> a, std::span<const int64_t> b);  // NumPy rule; mismatch: Exit::model
Dims row_major_strides(std::span<const int64_t> dims);

}  // namespace amp
