// The arithmetic of an optimizer step, one element and one scalar at a time, for the CPU's loops and the GPU's kernels
// alike.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/dtype.h"
#include "base/simd.h"

namespace amp {

// torch.optim.SGD with dampening 0: d = g + wd p; m = mu m + d; p -= lr (nesterov ? d + mu m : m).
template <class T>
struct SgdScalars {
  T lr, weight_decay, momentum;
  bool nesterov;
};
template <bool Momentum, bool Nesterov, class T>
AMP_INLINE HD inline T sgd_element(const SgdScalars<T>& c, T p, T g, T& m) {
  T d = g + c.weight_decay * p;
  if constexpr (Momentum) {
    const T buffer = c.momentum * m + d;
    m = buffer;
    d = Nesterov ? d + c.momentum * buffer : buffer;
  }
  return p - c.lr * d;
}

// torch.optim.Adam and AdamW.
template <class T>
struct AdamScalars {
  T shrink;         // adamw: 1 - lr * weight_decay; else 1
  T coupled_decay;  // adam: weight_decay; else 0
  T beta1_weight;   // 1 - beta1
  T beta2, beta2_weight;
  T bias2_sqrt;  // sqrt(1 - beta2^t)
  T eps;
  T step;  // lr / (1 - beta1^t)
};
// NearZero: lerp's formula for a weight below one half, as torch chooses it.
template <bool NearZero, class T>
AMP_INLINE HD inline T adam_element(const AdamScalars<T>& c, T p, T g, T& m, T& v) {
  p *= c.shrink;
  g += c.coupled_decay * p;
  const T gap = g - m;
  const T first = NearZero ? m + c.beta1_weight * gap : g - gap * (1 - c.beta1_weight);
  const T second = v * c.beta2 + c.beta2_weight * g * g;
  m = first;
  v = second;
  return p - c.step * first / (std::sqrt(second) / c.bias2_sqrt + c.eps);
}
// bias1, bias2: 1 - beta^t at this applied step t (1 is the first).
template <class T>
HD inline AdamScalars<T> adam_scalars(bool decoupled, double beta1, double beta2, double eps, double rate, double decay,
                                      double bias1, double bias2) {
  AdamScalars<T> k;
  k.shrink = static_cast<T>(decoupled ? 1 - rate * decay : 1.0);
  k.coupled_decay = static_cast<T>(decoupled ? 0.0 : decay);
  k.beta1_weight = static_cast<T>(1 - beta1);
  k.beta2 = static_cast<T>(beta2);
  k.beta2_weight = static_cast<T>(1 - beta2);
  k.bias2_sqrt = static_cast<T>(std::sqrt(bias2));
  k.eps = static_cast<T>(eps);
  k.step = static_cast<T>(rate / bias1);
  return k;
}

// torch.nn.utils.clip_grad_norm_: min(1, max_norm / (norm + 1e-6)), where torch divides through a reciprocal.
template <class T>
HD inline T clip_coefficient(double norm, double max_norm) {
  const T reciprocal = T(1) / (static_cast<T>(norm) + static_cast<T>(1e-6));
  const T c = reciprocal * static_cast<T>(max_norm);
  return c < T(1) ? c : T(1);
}

// The loss scale's state machine: torch.amp.GradScaler's plus floor, ceiling and hysteresis (precision/loss_scaler.h).
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
      // A scale set below the floor by hand stays where it is: backing off never raises it.
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
  if (grown - grown == 0) s.scale = grown;  // finite
}

}  // namespace amp
