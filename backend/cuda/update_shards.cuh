// Data that the kernels of DeviceUpdate read: shards (parts of tensors) with their settings, and the scalars of a step.
#pragma once

#include <cmath>

#include "backend/cuda/launch.cuh"
#include "backend/cuda/raw.cuh"
#include "backend/update.h"

namespace amp::cuda::update_kernels {

constexpr int kThreads = 256;
constexpr int64_t kShard = 4096;  // elements that a block updates at a time: 16 per thread

// A 16-bit copy of a parameter, and the position in the parameter of the shard that writes to it.
struct Kept {
  Ref to;
  int64_t first = 0;           // the shard's first element in the parameter
  int64_t row = 0, pitch = 0;  // elements of a row of the copy, distance of rows; row is 0 if the copy is contiguous
  bool fours = true;           // true if groups of four elements are contiguous and aligned

  Kept() = default;
  explicit Kept(const ParamCache::Copy& c) : to(c.tensor), row(c.row), pitch(c.pitch) {
    const auto address = reinterpret_cast<uintptr_t>(c.tensor.data);
    fours = row % 4 == 0 && pitch % 4 == 0 && address % static_cast<uintptr_t>(4 * size_of(c.tensor.dtype)) == 0;
  }
  // Stores W elements of the shard from element e on.
  template <int W>
  DEV void put(int64_t e, const float (&v)[W]) const {
    if (row == 0) return store_some(to, first + e, v);
    if constexpr (W > 1) {
      if (!fours) {
        for (int w = 0; w < W; ++w) store(to, place(first + e + w), v[w]);
        return;
      }
    }
    store_some(to, place(first + e), v);
  }

 private:
  DEV int64_t place(int64_t i) const {
    const int64_t r = quotient(i, row);
    return r * pitch + i - r * row;
  }
};
// Largest number of copies of one parameter: a copy of it alone, and up to two copies that hold it together with other
// parameters.
constexpr int kKept = 3;

// A part of a span (the elements of one parameter), with the settings of its update.
struct Shard {
  int64_t begin = 0, first = 0;  // index of the first element among all elements, and in its span
  int32_t count = 0, span = 0;
  double weight_decay = 0, lr_factor = 1;
  int64_t from_step = 0;   // frozen until this many steps were applied
  float limit = INFINITY;  // bound of the magnitude of a gradient's elements
  int32_t clip_group = 0;
  Kept copy[kKept];

  // stays() and waits() return true if the shard is frozen in this step. stays() is for kernels after Decide, when
  // `applied` includes the step. waits() is for kernels before Decide.
  DEV bool stays(const UpdateState& s) const { return from_step >= s.applied; }
  DEV bool waits(const UpdateState& s) const { return from_step > s.applied; }
};

// Returns the gradient that the rule receives: unscaled, clipped by norm, of magnitude at most `limit`.
DEV float transformed(float g, float inverse, float clip, float limit) {
  g = g * inverse * clip;
  g = g > limit ? limit : g;
  return g < -limit ? -limit : g;
}

// A rule's settings. If a schedule cycles the momentum, at() sets the momentum of the step.
struct SteppedSettings {
  enum Cycled : uint8_t { none, beta1, momentum };
  RuleSettings fixed;
  Cycled cycled = none;
  DEV RuleSettings at(const UpdateState& s) const {
    RuleSettings now = fixed;
    if (cycled == beta1) now.beta1 = s.momentum;
    if (cycled == momentum) now.momentum = s.momentum;
    return now;
  }
};

// The shards of a step and the scalars with which they are updated.
struct Moves {
  const UpdateState* state;
  const Shard* shards;
  int64_t n_shards;
  SteppedSettings settings;
  const float* clips;  // coefficient of each clipping group; null: there is one group

  DEV float clip(const Shard& s) const { return clips ? clips[s.clip_group] : state->clip; }
  template <class Element>
  DEV RuleStep step(const RuleSettings& now, const Shard& s) const {
    RuleStep step;
    for (int k = 0; k < kStepScalars; ++k) step.scalars[k] = state->step_scalars[k];
    if (s.from_step > 0) begin_rule_step<Element>(now, state->applied - s.from_step, state->lr, step.scalars);
    step.lr = state->lr * s.lr_factor;
    step.decay = s.weight_decay;
    return step;
  }
};

}  // namespace amp::cuda::update_kernels
