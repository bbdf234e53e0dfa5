// Kernels around the update's two passes: SAM's way up the gradients and back, averages of the estimate of curvature.
#pragma once

#include "backend/cuda/update_kernels.cuh"

namespace amp::cuda::update_kernels {

// SAM: how far up the gradients the weights go. One block.
struct DecideAscent {
  static constexpr bool cooperative = true;
  UpdateState* state;
  const Part* parts;
  int64_t n;
  double rho;
  DEV void operator()() const {
    double sum = 0;
    int bad = 0;
    for (int64_t i = thread_index(); i < n; i += block_threads()) {
      sum += parts[i].sum_squares;
      bad |= parts[i].bad;
    }
    sum = block_reduce(sum, 0.0, Sum{}, shared_memory<double>());
    bad = block_reduce(bad, 0, Maximum{}, shared_memory<int>());
    if (thread_index() != 0) return;
    state->inverse = static_cast<float>(1.0 / static_cast<double>(state->scale.scale));
    state->ascent_found_inf = bad != 0 || !finite(state->inverse) ? 1 : 0;
    state->ascent = sam_ascent(rho, sqrt(sum));
  }
};

// p to where SAM's second pass takes place, or, without gradients, back to what was kept; 16-bit copies follow.
struct Displace {
  const UpdateState* state;
  const Shard* shards;
  int64_t n_shards;
  float* p;
  const float* g;  // null: back
  float* kept;
  DEV void operator()() const {
    const float inverse = state->inverse, ascent = static_cast<float>(state->ascent);
    const bool still = state->ascent_found_inf != 0;
    for (int64_t i = block_index(); i < n_shards; i += grid_blocks()) {
      const Shard s = shards[i];
      for (int64_t e = thread_index(); e < s.count; e += block_threads()) {
        const int64_t j = s.begin + e;
        if (g) {
          kept[j] = p[j];
          if (!still) p[j] += g[j] * inverse * ascent;
        } else {
          p[j] = kept[j];
        }
        const float v[1] = {p[j]};
        for (int k = 0; k < kKept; ++k) {
          if (s.copy[k].to) s.copy[k].put(e, v);
        }
      }
    }
  }
};

// A unit's gradient: centralized, clipped by the norm of its weights. One block a unit at a time.
struct Unit {
  int64_t begin = 0, count = 0;
  bool matrix = false;
};
struct ShapeUnits {
  static constexpr bool cooperative = true;
  const UpdateState* state;
  const Unit* units;
  int64_t n;
  const float* p;
  float* g;
  bool centralize;
  double factor;  // 0: no clipping
  DEV void operator()() const {
    const double inverse = 1.0 / static_cast<double>(state->scale.scale);
    for (int64_t i = block_index(); i < n; i += grid_blocks()) {
      const Unit u = units[i];
      if (centralize && u.matrix) {
        double sum = 0;
        for (int64_t e = thread_index(); e < u.count; e += block_threads()) sum += static_cast<double>(g[u.begin + e]);
        sum = block_reduce(sum, 0.0, Sum{}, shared_memory<double>());
        const float mean = static_cast<float>(sum / static_cast<double>(u.count));
        for (int64_t e = thread_index(); e < u.count; e += block_threads()) g[u.begin + e] -= mean;
      }
      if (factor == 0) continue;
      double weights = 0, gradient = 0;
      for (int64_t e = thread_index(); e < u.count; e += block_threads()) {
        const double x = p[u.begin + e], y = g[u.begin + e];
        weights += x * x;
        gradient += y * y;
      }
      weights = block_reduce(weights, 0.0, Sum{}, shared_memory<double>());
      gradient = block_reduce(gradient, 0.0, Sum{}, shared_memory<double>());
      const float c = static_cast<float>(adaptive_clip(sqrt(weights), sqrt(gradient) * inverse, factor));
      for (int64_t e = thread_index(); e < u.count; e += block_threads()) g[u.begin + e] *= c;
    }
  }
};

struct AverageKernels {
  float* h;
  int64_t size;
  DEV void operator()(int64_t i) const { average_kernel(h + i * size, size); }
};

}  // namespace amp::cuda::update_kernels
