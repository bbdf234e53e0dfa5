// CPU implementation of the steps of tensor-wise optimizers (backend/tensor_rule.h). Sums are divided into parts by the
// tensor's shape only, and the parts are added in order.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "backend/cpu/gemm/gemm.h"
#include "backend/parallel.h"

namespace amp::cpu {

constexpr int64_t kTensorGrain = 16384;  // elements per task

// Calls f(begin, end) for ranges of the indices [0, units), on all threads. A range has about kTensorGrain elements,
// where each index has elements_each elements (such as a row).
template <class F>
void for_units(int64_t units, int64_t elements_each, F&& f) {
  parallel_ranges(units, std::max<int64_t>(1, kTensorGrain / std::max<int64_t>(elements_each, 1)), f,
                  std::numeric_limits<int64_t>::max());
}

// Returns the sum of f(i) over [begin, end), with eight accumulators.
template <class F>
double lane_sum(int64_t begin, int64_t end, F&& f) {
  double lanes[8] = {};
  int64_t i = begin;
  for (; i + 8 <= end; i += 8) {
    for (int64_t k = 0; k < 8; ++k) lanes[k] += f(i + k);
  }
  double sum = 0;
  for (; i < end; ++i) sum += f(i);
  for (const double x : lanes) sum += x;
  return sum;
}

struct TensorWorker {
  template <class F>
  void elements(int64_t n, const F& f) const {
    parallel_for((n + kTensorGrain - 1) / kTensorGrain, [&](int64_t k) {
      const int64_t end = std::min(n, (k + 1) * kTensorGrain);
      for (int64_t i = k * kTensorGrain; i < end; ++i) f(i);
    });
  }
  template <class Prepare, class F>
  void elements(int64_t n, const Prepare& prepare, const F& f) const {
    const auto c = prepare();
    elements(n, [&](int64_t i) { f(c, i); });
  }
  template <class F>
  void matrix(int64_t rows, int64_t columns, const F& f) const {
    for_units(rows, columns, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        for (int64_t j = 0; j < columns; ++j) f(i, j);
      }
    });
  }

  template <class F>
  void sums(int64_t rows, int64_t each, const F& f, double* out) const {
    if (rows == 1) {
      std::vector<double> parts(static_cast<size_t>((each + kTensorGrain - 1) / kTensorGrain));
      parallel_for(static_cast<int64_t>(parts.size()), [&](int64_t k) {
        parts[static_cast<size_t>(k)] = lane_sum(k * kTensorGrain, std::min(each, (k + 1) * kTensorGrain), f);
      });
      *out = 0;
      for (const double x : parts) *out += x;
      return;
    }
    for_units(rows, each, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) out[r] = lane_sum(r * each, (r + 1) * each, f);
    });
  }
  template <class F>
  void column_sums(int64_t matrices, int64_t rows, int64_t columns, const F& f, double* out) const {
    constexpr int64_t kBlock = 64;  // columns per task
    const int64_t blocks = (columns + kBlock - 1) / kBlock;
    for_units(matrices * blocks, rows * kBlock, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        const int64_t m = k / blocks, from = k % blocks * kBlock, count = std::min(kBlock, columns - from);
        double sums[kBlock] = {};
        for (int64_t i = 0; i < rows; ++i) {
          for (int64_t j = 0; j < count; ++j) sums[j] += f((m * rows + i) * columns + from + j);
        }
        std::copy_n(sums, count, out + m * columns + from);
      }
    });
  }
  template <class F>
  void largest(int64_t n, const F& f, double* out) const {
    *out = 0;
    for (int64_t i = 0; i < n; ++i) *out = std::max(*out, f(i));
  }

  template <class F>
  void single(const F& f) const {
    f();
  }
  template <class T>
  void copy(const T* from, T* to, int64_t n) const {
    std::copy_n(from, n, to);
  }
  template <class T>
  void product(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a, int64_t lda,
               const T* b, int64_t ldb, T beta, T* c, int64_t ldc) const {
    parallel_gemm<T>(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  }
  bool may_be_nonzero(const double* flag) const { return *flag != 0; }
};

}  // namespace amp::cpu
