// Small operations on fp32 matrices of adapters.
#pragma once

#include <vector>

#include "base/host_tensor.h"

namespace amp {

// Returns rows [row, row + rows) and columns [column, column + columns).
HostTensor matrix_block(const HostTensor& t, int64_t row, int64_t rows, int64_t column, int64_t columns);
// Copies `from` into `to` at (row, column).
void set_block(HostTensor& to, const HostTensor& from, int64_t row, int64_t column);
HostTensor multiplied(const HostTensor& t, double factor);  // returns t itself if the factor is 1
HostTensor vector_range(const HostTensor& t, int64_t from,
                        int64_t size);                       // t: a vector; the result is null if t is null
bool same_values(const HostTensor& a, const HostTensor& b);  // true if dims and bits are equal

}  // namespace amp
