// Work is divided into shards. The number of shards depends only on the work, and each shard runs on one thread. So
// results have the same bits for any number of threads.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace amp {

namespace parallel_detail {
using Shard = void (*)(void* fn, int64_t shard);
void run_shards(int64_t shards, Shard shard, void* fn);
void run_team(int64_t shards, Shard shard, void* fn);
// Calls a type-erased function, so that a function's body is compiled once instead of once per scheduling variant.
template <class Fn>
void call(void* fn, int64_t shard) {
  (*static_cast<Fn*>(fn))(shard);
}
}  // namespace parallel_detail

// Runs fn(shard) for shard in [0, shards). The first exception is rethrown.
template <class Fn>
void parallel_for(int64_t shards, Fn&& fn) {
  using F = std::remove_cvref_t<Fn>;
  parallel_detail::run_shards(shards, parallel_detail::call<F>, const_cast<F*>(std::addressof(fn)));
}

// Like parallel_for, but with at most as many shards as threads, and shard s runs on the same thread in every call. So
// data that a shard reads again in the next call is still in its core's cache. Use it only for work whose bits do not
// depend on the number of shards.
template <class Fn>
void parallel_team(int64_t shards, Fn&& fn) {
  using F = std::remove_cvref_t<Fn>;
  parallel_detail::run_team(shards, parallel_detail::call<F>, const_cast<F*>(std::addressof(fn)));
}

// Divides [0, n) into ranges of about `grain` elements, at most max_shards, and runs fn(begin, end) on each.
template <class Fn>
void parallel_ranges(int64_t n, int64_t grain, Fn&& fn, int64_t max_shards = 64) {
  const int64_t shards = std::clamp<int64_t>(n / std::max<int64_t>(grain, 1), 1, max_shards);
  const int64_t step = (n + shards - 1) / shards;
  parallel_for(shards, [&](int64_t s) {
    const int64_t begin = s * step, end = std::min(n, begin + step);
    if (begin < end) fn(begin, end);
  });
}

// Within its scope, sets the number of threads that loops of the calling thread, and the libraries that it calls, use.
class WithThreads {
 public:
  explicit WithThreads(int n) : before_(omp_get_max_threads()) { omp_set_num_threads(n); }
  ~WithThreads() { omp_set_num_threads(before_); }
  WithThreads(const WithThreads&) = delete;
  WithThreads& operator=(const WithThreads&) = delete;

 private:
  int before_;
};

}  // namespace amp
