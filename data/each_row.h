// Loops over the rows of a table on OpenMP's threads, for data preparation before training.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <vector>

#include "base/activity.h"

namespace amp {

// Calls f(row) for every row. If several rows throw, the exception of the first row is rethrown.
template <class F>
void for_each_row(int64_t rows, F&& f) {
  std::exception_ptr error;
  int64_t failed = rows;
#pragma omp parallel for schedule(dynamic, 64)
  for (int64_t r = 0; r < rows; ++r) {
    try {
      f(r);
    } catch (...) {
#pragma omp critical(for_each_row)
      if (r < failed) {
        failed = r;
        error = std::current_exception();
      }
    }
  }
  if (error) std::rethrow_exception(error);
}

// Calls make(row) on several threads and take(row, result) in row order on the calling thread. Processes kBlock rows at
// a time, so that the results of all rows are not in memory at once. Reports progress in tokenized rows.
template <class Make, class Take>
void for_each_made(int64_t rows, Make&& make, Take&& take) {
  constexpr int64_t kBlock = 8192, kReported = 64;
  Activity tokenizing("tokenizing", "rows", rows);
  std::vector<decltype(make(int64_t{0}))> block;
  for (int64_t first = 0; first < rows; first += kBlock) {
    const int64_t n = std::min(rows - first, kBlock);
    block.clear();
    block.resize(static_cast<size_t>(n));
    for_each_row(n, [&](int64_t i) {
      block[static_cast<size_t>(i)] = make(first + i);
      if (i % kReported == 0) tokenizing.add(std::min(kReported, n - i));
    });
    for (int64_t i = 0; i < n; ++i) take(first + i, block[static_cast<size_t>(i)]);
  }
}

}  // namespace amp
