// What the kernels of the device's update work on: parts of tensors, and how they move in a step.
#pragma once

#include <cmath>

#include "backend/cuda/launch.cuh"
#include "backend/cuda/raw.cuh"
#include "backend/update.h"

namespace amp::cuda::update_kernels {

constexpr int kThreads = 256;
constexpr int64_t kShard = 4096;  // elements that a block updates at a time: 16 a thread

// Where a parameter, or a part of it, is kept in 16 bits.
struct Kept {
  Ref to;
  int64_t first = 0;           // the part's first element
  int64_t row = 0, pitch = 0;  // elements that lie close, and from one such row to the next; 0: all lie close
  bool fours = true;           // groups of four lie close and aligned

  Kept() = default;
  explicit Kept(const ParamCache::Copy& c) : to(c.tensor), row(c.row), pitch(c.pitch) {
    const auto address = reinterpret_cast<uintptr_t>(c.tensor.data);
    fours = row % 4 == 0 && pitch % 4 == 0 && address % static_cast<uintptr_t>(4 * size_of(c.tensor.dtype)) == 0;
  }
  // W elements from the part's element e on.
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
constexpr int kKept = 3;  // in 16 bits, and joined to others in up to two ways

struct Shard {
  int64_t begin = 0, first = 0;  // its first element, among all and in its span
  int32_t count = 0, span = 0;
  double weight_decay = 0, lr_factor = 1;
  int64_t from_step = 0;   // applied steps before which it stays as it is
  float limit = INFINITY;  // of a gradient's element
  int32_t clip_group = 0;
  Kept copy[kKept];

  // While a step is applied, which `applied` counts already; before that, while gradients are looked at.
  DEV bool stays(const UpdateState& s) const { return from_step >= s.applied; }
  DEV bool waits(const UpdateState& s) const { return from_step > s.applied; }
};

// A gradient as the rule takes it: unscaled, clipped by norm, its magnitude at most `limit`.
DEV float transformed(float g, float inverse, float clip, float limit) {
  g = g * inverse * clip;
  g = g > limit ? limit : g;
  return g < -limit ? -limit : g;
}

// A rule's settings; where a schedule cycles its momentum, with that of the step.
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

// How a shard moves in a step.
struct Moves {
  const UpdateState* state;
  const Shard* shards;
  int64_t n_shards;
  SteppedSettings settings;
  const float* clips;  // of each clipping group; null: there is one

  DEV float clip(const Shard& s) const { return clips ? clips[s.clip_group] : state->clip; }
  template <class Element>
  DEV RuleStep step(const RuleSettings& now, const Shard& s) const {
    RuleStep step;
    for (int k = 0; k < kRuleFacts; ++k) step.facts[k] = state->facts[k];
    if (s.from_step > 0) rule_once<Element>(now, state->applied - s.from_step, state->lr, step.facts);
    step.lr = state->lr * s.lr_factor;
    step.decay = s.weight_decay;
    return step;
  }
};

}  // namespace amp::cuda::update_kernels
