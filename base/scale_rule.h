// Computes the clipping factor and the next loss scale from a step's gradient norm and finite check. Shared by CPU and
// GPU.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/dtype.h"
#include "base/simd.h"

namespace amp {

// Returns min(1, max_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_ does. Computes the quotient as a
// product with the reciprocal, so that it is rounded as in torch.
template <class T>
HD inline T clip_coefficient(double norm, double max_norm) {
  const T reciprocal = T(1) / (static_cast<T>(norm) + static_cast<T>(1e-6));
  const T c = reciprocal * static_cast<T>(max_norm);
  return c < T(1) ? c : T(1);
}

// Settings of the loss scale: torch.amp.GradScaler's, with floor, ceiling and hysteresis (precision/loss_scaler.h).
struct ScaleRule {
  bool dynamic = true;
  double growth_factor = 2, backoff_factor = 0.5, min = 1, max = 16777216;
  int32_t growth_interval = 2000, hysteresis = 1;
};
struct ScaleState {
  float scale = 1;
  int32_t growth_tracker = 0;
  int32_t hysteresis_left = 1;
  int64_t consecutive_skips = 0, total_skips = 0;
  bool operator==(const ScaleState&) const = default;
};
HD inline void step_scale(const ScaleRule& r, ScaleState& s, bool found_inf) {
  s.consecutive_skips = found_inf ? s.consecutive_skips + 1 : 0;
  s.total_skips += found_inf ? 1 : 0;
  if (!r.dynamic) return;
  const double scale = s.scale;
  if (found_inf) {
    s.growth_tracker = 0;
    s.hysteresis_left = s.hysteresis_left > 1 ? s.hysteresis_left - 1 : 0;
    if (s.hysteresis_left == 0) {
      // A scale below the floor was set by hand. Backing off must not raise it to the floor.
      const double floor = r.min < scale ? r.min : scale, lowered = scale * r.backoff_factor;
      s.scale = static_cast<float>(lowered > floor ? lowered : floor);
    }
    return;
  }
  s.hysteresis_left = r.hysteresis;
  if (++s.growth_tracker != r.growth_interval) return;
  s.growth_tracker = 0;
  const double ceiling = r.max > scale ? r.max : scale, raised = scale * r.growth_factor;
  const float grown = static_cast<float>(raised < ceiling ? raised : ceiling);
  if (grown - grown == 0) s.scale = grown;  // true if finite
}

}  // namespace amp
