#include "backend/parallel.h"

#include <exception>

namespace amp::parallel_detail {

void run_shards(int64_t shards, Shard shard, void* fn) {
  if (shards <= 1 || omp_get_max_threads() == 1) {  // avoids the overhead of a parallel region with one thread
    for (int64_t s = 0; s < shards; ++s) shard(fn, s);
    return;
  }
  std::exception_ptr error;
#pragma omp parallel for schedule(dynamic, 1)
  for (int64_t s = 0; s < shards; ++s) {
    try {
      shard(fn, s);
    } catch (...) {
#pragma omp critical
      if (!error) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

void run_team(int64_t shards, Shard shard, void* fn) {
  if (shards <= 1) {
    if (shards == 1) shard(fn, 0);
    return;
  }
  std::exception_ptr error;
#pragma omp parallel num_threads(static_cast <int>(shards))
  {
    try {
      for (int64_t s = omp_get_thread_num(); s < shards; s += omp_get_num_threads()) shard(fn, s);
    } catch (...) {
#pragma omp critical
      if (!error) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace amp::parallel_detail
