// Loops over samples on separate threads, because the loader runs while training uses OpenMP's threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace amp {

// Calls f(i) once for each i in [0, n), in any order, on at most `threads` threads. If several calls throw, the
// exception of the lowest i is rethrown, so that the reported error does not depend on timing.
template <class F>
void for_each_on(int threads, int64_t n, const F& f) {
  std::atomic<int64_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  int64_t failed = n;
  const auto work = [&] {
    for (int64_t i = next++; i < n; i = next++) {
      try {
        f(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (i < failed) {
          failed = i;
          error = std::current_exception();
        }
      }
    }
  };
  {
    std::vector<std::jthread> team;
    try {
      for (int64_t t = 1; t < std::min<int64_t>(threads, n); ++t) team.emplace_back(work);
    } catch (const std::system_error&) {  // a limit of threads was reached: the started threads do the work
    }
    work();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace amp
