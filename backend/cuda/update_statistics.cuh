// Kernels of DeviceUpdate for running statistics (ops/statistics.h). Staged statistics are checked for infinities
// before a step is applied. If the step is applied, they replace the committed statistics.
#pragma once

#include "backend/cuda/update_kernels.cuh"

namespace amp::cuda::update_kernels {

struct Statistic {
  float* committed;
  float* staged;
  int64_t count;
  Kept copy[kKept];
};

// Multiplies staged statistics by the rank's share of the rows, before they are summed over ranks. Each statistic has
// one block.
struct WeightStatistics {
  static constexpr bool cooperative = false;
  const Statistic* statistics;
  const double* share;
  DEV void operator()() const {
    const Statistic s = statistics[block_index()];
    for (int64_t i = thread_index(); i < s.count; i += block_threads()) s.staged[i] *= static_cast<float>(*share);
  }
};

// Checks that staged statistics are finite. One block checks one statistic.
struct InspectStatistics {
  static constexpr bool cooperative = true;
  const Statistic* statistics;
  Part* parts;
  DEV void operator()() const {
    const Statistic s = statistics[block_index()];
    int bad = 0;
    for (int64_t i = thread_index(); i < s.count; i += block_threads()) bad |= finite(s.staged[i]) ? 0 : 1;
    bad = block_reduce(bad, 0, Maximum{}, shared_memory<int>());
    if (thread_index() == 0) parts[block_index()] = Part{0, 0, bad};
  }
};

struct CommitStatistics {
  const UpdateState* state;
  const Statistic* statistics;
  int64_t n;
  DEV void operator()() const {
    if (state->found_inf) return;
    for (int64_t i = block_index(); i < n; i += grid_blocks()) {
      const Statistic s = statistics[i];
      for (int64_t e = thread_index(); e < s.count; e += block_threads()) {
        s.committed[e] = s.staged[e];
        const float v[1] = {s.staged[e]};
        for (int j = 0; j < kKept; ++j) {
          if (s.copy[j].to) s.copy[j].put(e, v);
        }
      }
    }
  }
};

}  // namespace amp::cuda::update_kernels
