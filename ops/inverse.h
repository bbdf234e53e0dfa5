// Inverses by Gauss-Jordan elimination with pivoting.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/dtype.h"

namespace amp {

// Inverts the n x n matrix a into y, both in row-major order with elements `step` apart. Overwrites a. For a singular
// matrix a pivot is 0, and the division by it gives infinity or NaN.
template <class T>
HD inline void invert(T* a, T* y, int64_t n, int64_t step) {
  const auto at = [&](T* m, int64_t row, int64_t column) -> T& { return m[(row * n + column) * step]; };
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) at(y, i, j) = i == j ? T(1) : T(0);
  }
  const auto exchange = [&](T* m, int64_t i, int64_t k) {
    for (int64_t j = 0; j < n; ++j) {
      const T v = at(m, i, j);
      at(m, i, j) = at(m, k, j);
      at(m, k, j) = v;
    }
  };
  for (int64_t k = 0; k < n; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < n; ++i) {
      if (std::abs(at(a, i, k)) > std::abs(at(a, pivot, k))) pivot = i;
    }
    if (pivot != k) {
      exchange(a, pivot, k);
      exchange(y, pivot, k);
    }
    const T r = T(1) / at(a, k, k);
    for (int64_t j = 0; j < n; ++j) {
      at(a, k, j) *= r;
      at(y, k, j) *= r;
    }
    for (int64_t i = 0; i < n; ++i) {
      if (i == k) continue;
      const T f = at(a, i, k);
      for (int64_t j = 0; j < n; ++j) {
        at(a, i, j) -= f * at(a, k, j);
        at(y, i, j) -= f * at(y, k, j);
      }
    }
  }
}

}  // namespace amp
