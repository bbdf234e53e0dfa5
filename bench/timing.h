// Helpers of the *_speed benchmarks.
#pragma once

#include <algorithm>
#include <ctime>
#include <vector>

// Returns this thread's processor time in seconds, which other load on the machine affects less.
inline double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

template <class F>
double thread_seconds_of(F&& work) {
  const double begin = thread_seconds();
  work();
  return thread_seconds() - begin;
}

inline double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}
