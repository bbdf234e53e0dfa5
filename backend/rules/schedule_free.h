// Schedule-Free AdamW (Defazio et al. 2024, arXiv:2405.15682) as schedulefree.AdamWScheduleFree. Gradients are
// computed at y = (1 - beta1) z + beta1 x. x is the average of the z, weighted by a power of the largest rate so
// far,
//   d = g / (sqrt(v / (1 - beta2^t)) + eps) + decay y,  c = w_t / (w_1 + .. + w_t),
//   y = y + c (z - y) + lr (beta1 (1 - c) - 1) d,  z = z - lr d.
// The trained weights are y. x is computed from y and z; it is evaluated and exported.
#pragma once

#include "backend/update_rule.h"

namespace amp {

struct ScheduleFreeElement {
  static constexpr int moments = 2;  // z, v
  template <class T>
  struct Scalars {
    T first;  // 1 at the first step, where z equals y
    T decay, beta2, beta2_weight, bias2, eps, share, along, lr;
  };
  // Writes to step_scalars: the bias correction, c, the largest rate, the sum of w_1 to w_t, and t.
  HD static void begin_step(const RuleSettings& s, int64_t t, double lr, double (&step_scalars)[kStepScalars]) {
    const double n = static_cast<double>(t);
    step_scalars[0] = 1 - std::pow(s.beta2, n);
    if (t == 1) step_scalars[2] = step_scalars[3] = 0;
    step_scalars[2] = lr > step_scalars[2] ? lr : step_scalars[2];
    const double weight = std::pow(n, s.r) * std::pow(step_scalars[2], s.weight_lr_power);
    step_scalars[3] += weight;
    step_scalars[1] = step_scalars[3] > 0 ? weight / step_scalars[3] : 0;
    step_scalars[4] = n;
  }
  template <class T>
  HD static Scalars<T> scalars(const RuleSettings& s, const RuleStep& step) {
    return {static_cast<T>(step.scalars[4] == 1 ? 1 : 0),
            static_cast<T>(step.decay),
            static_cast<T>(s.beta2),
            static_cast<T>(1 - s.beta2),
            static_cast<T>(step.scalars[0]),
            static_cast<T>(s.eps),
            static_cast<T>(step.scalars[1]),
            static_cast<T>(step.lr * (s.beta1 * (1 - step.scalars[1]) - 1)),
            static_cast<T>(step.lr)};
  }
  template <class T>
  AMP_INLINE HD static T step(const Scalars<T>& c, T y, T g, T& z, T& v) {
    z = c.first != 0 ? y : z;
    v = v * c.beta2 + c.beta2_weight * g * g;
    const T d = g / (std::sqrt(v / c.bias2) + c.eps) + c.decay * y;
    y = rule_lerp(y, z, c.share) + c.along * d;
    z = z - c.lr * d;
    return y;
  }
  template <class T>
  AMP_INLINE HD static T step_zero_grad(const Scalars<T>& c, T y) {
    T z = 0, v = 0;
    return step<T>(c, y, T(0), z, v);
  }
  template <class T>
  static T evaluated(const RuleSettings& s, T y, T z) {
    return y + static_cast<T>(1 - 1 / s.beta1) * (z - y);
  }
};

struct ScheduleFreeAdamW : RuleOf<ScheduleFreeElement> {
  static constexpr std::string_view name = "schedule_free_adamw";
  static constexpr RuleKey keys[] = {{"beta1", &RuleSettings::beta1, 0.9, 0.001, 1, "adam_beta1"},
                                     kBeta2,
                                     kEps,
                                     {"weight_lr_power", &RuleSettings::weight_lr_power, 2, 0, kNoLimit},
                                     {"r", &RuleSettings::r, 0, 0, kNoLimit}};
};

}  // namespace amp
