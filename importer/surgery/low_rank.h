// Arithmetic on weights W [in, out] for LoRA: the part of the largest singular values, products of low rank, norms.
#pragma once

#include <vector>

#include "base/host_tensor.h"

namespace amp {

struct LowRank {
  HostTensor left, right;  // fp32 [in, r] and [r, out]
};
// Returns the best approximation of W of rank r, up to the error of a randomized subspace iteration (Halko et al.,
// 2011, algorithm 4.4; 4 iterations, 8 additional columns). Both factors are scaled by the roots of the singular
// values. seed: of the first subspace. r may exceed the rank of W; the rest is then 0.
LowRank principal(const HostTensor& w, int64_t r, uint64_t seed);

HostTensor transposed_matrix(const HostTensor& t);                         // t: fp32 [rows, columns]
HostTensor columns_of(const HostTensor& w, int64_t first, int64_t count);  // returns fp32 [in, count]
std::vector<double> column_squares(const HostTensor& w);                   // sums of squares of the columns of fp32 W

// Returns `w` plus factor * a b in its columns from `first`, summed in double, in the dtype of w. a: fp32 [in, r], b:
// fp32 [r, n]. w is [in, out], or [out, in] if `transposed`.
HostTensor with_product(const HostTensor& w, bool transposed, const HostTensor& a, const HostTensor& b, double factor,
                        int64_t first);

}  // namespace amp
