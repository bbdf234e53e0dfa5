// Work on the rows of a table, by OpenMP's threads, before any training.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>

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

// f(first, end) of one block of rows after the other, where what comes of all of them would be too much at a time.
template <class F>
void for_each_block(int64_t rows, F&& f) {
  constexpr int64_t size = 8192;
  for (int64_t first = 0; first < rows; first += size) f(first, std::min(rows, first + size));
}

}  // namespace amp
