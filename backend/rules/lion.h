// Lion (Chen et al. 2023, arXiv:2302.06675): p -= lr sign(beta1 m + (1 - beta1) g), m = beta2 m + (1 - beta2) g;
// decay is decoupled.
#pragma once

#include "backend/update_rule.h"

namespace amp {

struct LionElement {
  static constexpr int moments = 1;  // m
  static constexpr bool quantizes = true;
  template <class T>
  struct Scalars {
    T shrink, lr, beta1, beta1_weight, beta2, beta2_weight;
  };
  HD static void begin_step(const RuleSettings&, int64_t, double (&)[kStepScalars]) {}
  template <class T>
  HD static Scalars<T> scalars(const RuleSettings& s, const RuleStep& step) {
    return {static_cast<T>(1 - step.lr * step.decay),
            static_cast<T>(step.lr),
            static_cast<T>(s.beta1),
            static_cast<T>(1 - s.beta1),
            static_cast<T>(s.beta2),
            static_cast<T>(1 - s.beta2)};
  }
  template <class T>
  AMP_INLINE HD static T step_zero_grad(const Scalars<T>& c, T p) {
    return p * c.shrink;
  }
  template <class T>
  AMP_INLINE HD static T step(const Scalars<T>& c, T p, T g, T& m, T&) {
    const T d = m * c.beta1 + g * c.beta1_weight;
    m = m * c.beta2 + g * c.beta2_weight;
    const T sign = d > 0 ? T(1) : d < 0 ? T(-1) : T(0);
    return p * c.shrink - c.lr * sign;
  }
};

struct Lion : RuleOf<LionElement> {
  static constexpr std::string_view name = "lion";
  static constexpr RuleKey keys[] = {kBeta1, {"beta2", &RuleSettings::beta2, 0.99, 0, 1}};
};

}  // namespace amp
