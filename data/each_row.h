// Work on the rows of a table, by OpenMP's threads, before any training.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <vector>

namespace amp {

// f(row) of every row; of several errors the first row's is thrown.
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

// take(row, made) of every row in order, with what make(row) has made of it on threads: a block of rows at a time,
// where what comes of all of them would be too much.
template <class Make, class Take>
void for_each_made(int64_t rows, Make&& make, Take&& take) {
  constexpr int64_t kBlock = 8192;
  std::vector<decltype(make(int64_t{0}))> block;
  for (int64_t first = 0; first < rows; first += kBlock) {
    const int64_t n = std::min(rows - first, kBlock);
    block.clear();
    block.resize(static_cast<size_t>(n));
    for_each_row(n, [&](int64_t i) { block[static_cast<size_t>(i)] = make(first + i); });
    for (int64_t i = 0; i < n; ++i) take(first + i, block[static_cast<size_t>(i)]);
  }
}

}  // namespace amp
