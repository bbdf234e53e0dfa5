// Kernels around the update's two passes: changes of gradients before the rule (noise, clipping by groups of tensors
// and by units, which are the weights of one output), SAM's ascent and return, 16-bit copies, and averages of the
// curvature estimate.
#pragma once

#include "backend/cuda/update_kernels.cuh"
#include "backend/gradient_noise.h"

namespace amp::cuda::update_kernels {

// Adds gradient noise (backend/gradient_noise.h), multiplied by the loss scale.
struct AddNoise {
  const UpdateState* state;
  const Shard* shards;
  int64_t n_shards;
  float* g;
  double eta;
  uint64_t seed;
  DEV void operator()() const {
    const double deviation = noise_deviation(eta, state->applied) * static_cast<double>(state->scale.scale);
    for (int64_t i = block_index(); i < n_shards; i += grid_blocks()) {
      const Shard s = shards[i];
      if (s.waits(*state)) continue;
      for (int64_t e = s.begin + thread_index(); e < s.begin + s.count; e += block_threads())
        g[e] += static_cast<float>(gradient_noise(seed, state->applied, e, deviation));
    }
  }
};

// Pass 1 by shards. It is used if some tensors are frozen until a later step, because their gradients are ignored, or
// if clipping groups need norms.
struct InspectShards {
  static constexpr bool cooperative = true;
  const UpdateState* state;
  const Shard* shards;
  int64_t n_shards;
  const float* g;
  Part* parts;       // one per shard
  bool norm = true;  // false: only checks that all elements are finite
  DEV void operator()() const {
    const float inverse = static_cast<float>(1.0 / static_cast<double>(state->scale.scale));
    for (int64_t i = block_index(); i < n_shards; i += grid_blocks()) {
      Shard s = shards[i];
      if (s.waits(*state)) s.count = 0;
      float sum = 0, most = 0;
      int bad = 0;
      for (int64_t e = thread_index(); e < s.count; e += block_threads()) {
        const float x = g[s.begin + e], y = x * inverse;
        bad |= finite(x) ? 0 : 1;
        sum += y * y;
        most = Maximum{}(most, fabsf(x));
      }
      const double total = block_reduce(static_cast<double>(sum), 0.0, Sum{}, shared_memory<double>());
      most = block_reduce(most, 0.0f, Maximum{}, shared_memory<float>());
      bad = block_reduce(bad, 0, Maximum{}, shared_memory<int>());
      if (thread_index() == 0) parts[i] = norm ? Part{total, most, bad} : Part{0, 0, bad};
    }
  }
};

// Computes the coefficient of each clipping group after Decide. One block computes one group.
struct ClipGroups {
  static constexpr bool cooperative = true;
  const UpdateState* state;
  const Shard* shards;
  int64_t n_shards;
  const Part* parts;
  const double* bounds;  // one per group; 0: no clipping
  bool inf_norm;
  float* clips;
  DEV void operator()() const {
    const int64_t group = block_index();
    double sum = 0;
    float most = 0;
    for (int64_t i = thread_index(); i < n_shards; i += block_threads()) {
      if (shards[i].clip_group != group) continue;
      sum += parts[i].sum_squares;
      most = Maximum{}(most, parts[i].most);
    }
    sum = block_reduce(sum, 0.0, Sum{}, shared_memory<double>());
    most = block_reduce(most, 0.0f, Maximum{}, shared_memory<float>());
    if (thread_index() != 0) return;
    const double norm = inf_norm ? static_cast<double>(most) * static_cast<double>(state->inverse) : sqrt(sum);
    clips[group] = bounds[group] > 0 ? clip_coefficient<float>(norm, bounds[group]) : 1.0f;
  }
};

// SAM: computes the factor of the ascent along the gradients. Runs in one block.
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

// SAM: moves the weights p to the point at which the second forward and backward pass computes gradients, and saves
// their old values in `kept`. If g is null, restores p from `kept`. Updates the 16-bit copies.
struct Displace {
  const UpdateState* state;
  const Shard* shards;
  int64_t n_shards;
  float* p;
  const float* g;  // gradients; null: restores p
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
          if (!still && !s.waits(*state)) p[j] += g[j] * inverse * ascent;
        } else {
          p[j] = kept[j];
        }
        const float v[1] = {p[j]};
        unrolled<kKept>([&](auto k) {
          if (s.copy[k].to) s.copy[k].put(e, v);
        });
      }
    }
  }
};

// Writes the 16-bit copies of all weights after the other ranks' shards have been gathered.
struct KeepCopies {
  const Shard* shards;
  int64_t n_shards;
  const float* p;
  DEV void operator()() const {
    for (int64_t i = block_index(); i < n_shards; i += grid_blocks()) {
      const Shard& s = shards[i];
      const int32_t whole = s.count / 4 * 4;
      const auto some = [&](auto width, int64_t e) {
        float v[decltype(width)::value];
        load_some(floats(p), s.begin + e, v);
        for (int k = 0; k < kKept; ++k) {
          if (s.copy[k].to) s.copy[k].put(e, v);
        }
      };
      for (int64_t e = 4 * int64_t{thread_index()}; e < whole; e += 4 * block_threads())
        some(std::integral_constant<int, 4>{}, e);
      for (int64_t e = whole + thread_index(); e < s.count; e += block_threads())
        some(std::integral_constant<int, 1>{}, e);
    }
  }
};

// The weights of one output (UpdateSpan::unit).
struct Unit {
  int64_t begin = 0, count = 0;
  bool matrix = false;
  double factor = 0;  // bound of the gradient's norm, as a multiple of the weights' norm; 0: no clipping
};
// Centralizes each unit's gradient and clips it relative to the norm of the unit's weights. A block takes one unit at a
// time.
struct ShapeUnits {
  static constexpr bool cooperative = true;
  static constexpr int min_blocks = 1;
  const UpdateState* state;
  const Unit* units;
  int64_t n;
  const float* p;
  float* g;
  bool centralize;
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
      if (u.factor == 0) continue;
      double weights = 0, gradient = 0;
      for (int64_t e = thread_index(); e < u.count; e += block_threads()) {
        const double x = p[u.begin + e], y = g[u.begin + e];
        weights += x * x;
        gradient += y * y;
      }
      weights = block_reduce(weights, 0.0, Sum{}, shared_memory<double>());
      gradient = block_reduce(gradient, 0.0, Sum{}, shared_memory<double>());
      const float c = static_cast<float>(adaptive_clip(sqrt(weights), sqrt(gradient) * inverse, u.factor));
      for (int64_t e = thread_index(); e < u.count; e += block_threads()) g[u.begin + e] *= c;
    }
  }
};

// Averages the curvature estimate over each convolution kernel.
struct AverageKernels {
  float* h;
  int64_t size;
  DEV void operator()(int64_t i) const { average_kernel(h + i * size, size); }
};

}  // namespace amp::cuda::update_kernels
