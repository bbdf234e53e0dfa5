// Determinants by Gaussian elimination with pivoting.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/dtype.h"

namespace amp {

// Returns the determinant of an n x n matrix (row-major, elements `step` apart). Overwrites the matrix.
template <class T>
HD inline T determinant(T* a, int64_t n, int64_t step) {
  const auto at = [&](int64_t row, int64_t column) -> T& { return a[(row * n + column) * step]; };
  T det = 1;
  for (int64_t k = 0; k < n; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < n; ++i) {
      if (std::abs(at(i, k)) > std::abs(at(pivot, k))) pivot = i;
    }
    const T p = at(pivot, k);
    if (p == 0) return p;
    if (pivot != k) {
      for (int64_t j = k; j < n; ++j) {
        const T v = at(k, j);
        at(k, j) = at(pivot, j);
        at(pivot, j) = v;
      }
      det = -det;
    }
    det *= p;
    for (int64_t i = k + 1; i < n; ++i) {
      const T f = at(i, k) / p;
      for (int64_t j = k + 1; j < n; ++j) at(i, j) -= f * at(k, j);
    }
  }
  return det;
}

}  // namespace amp
