// RAdam (Liu et al. 2020, arXiv:1908.03265) as torch.optim.RAdam: Adam with a rectified adaptive rate, which is not
// applied while the variance of its estimate is unbounded (rho <= 5). Decay is added to the gradient (radam) or
// decoupled (radamw).
#pragma once

#include "backend/update_rule.h"

namespace amp {

template <bool Decoupled>
struct RAdamElement {
  static constexpr int moments = 2;
  template <class T>
  struct Scalars {
    T shrink, coupled_decay, beta1_weight, beta2, beta2_weight, bias1, eps, lr;
    T rectified;  // sqrt(1 - beta2^t) times the rectification
    T adaptive;   // 1, or 0 while the adaptive rate is not applied
  };
  HD static void begin_step(const RuleSettings& s, int64_t t, double (&step_scalars)[kStepScalars]) {
    const double n = static_cast<double>(t), power = std::pow(s.beta2, n);
    const double most = 2 / (1 - s.beta2) - 1, rho = most - 2 * n * power / (1 - power);
    step_scalars[0] = 1 - std::pow(s.beta1, n);
    step_scalars[1] = std::sqrt(1 - power);
    step_scalars[2] = rho > 5 ? std::sqrt((rho - 4) * (rho - 2) * most / ((most - 4) * (most - 2) * rho)) : 0;
  }
  template <class T>
  HD static Scalars<T> scalars(const RuleSettings& s, const RuleStep& step) {
    return {static_cast<T>(Decoupled ? 1 - step.lr * step.decay : 1.0),
            static_cast<T>(Decoupled ? 0.0 : step.decay),
            static_cast<T>(1 - s.beta1),
            static_cast<T>(s.beta2),
            static_cast<T>(1 - s.beta2),
            static_cast<T>(step.scalars[0]),
            static_cast<T>(s.eps),
            static_cast<T>(step.lr),
            static_cast<T>(step.scalars[1] * step.scalars[2]),
            static_cast<T>(step.scalars[2] > 0 ? 1 : 0)};
  }
  template <class T>
  AMP_INLINE HD static T step_zero_grad(const Scalars<T>& c, T p) {
    return p * c.shrink;
  }
  template <class T>
  AMP_INLINE HD static T step(const Scalars<T>& c, T p, T g, T& m, T& v) {
    p *= c.shrink;
    g += c.coupled_decay * p;
    m = rule_lerp(m, g, c.beta1_weight);
    v = v * c.beta2 + c.beta2_weight * g * g;
    const T rate = c.adaptive > 0 ? c.rectified / (std::sqrt(v) + c.eps) : T(1);
    return p - m / c.bias1 * c.lr * rate;
  }
};

template <bool Decoupled>
struct RAdamFamily : RuleOf<RAdamElement<Decoupled>> {
  static constexpr RuleKey keys[] = {kBeta1, kBeta2, kEps};
};

struct RAdam : RAdamFamily<false> {
  static constexpr std::string_view name = "radam";
};
struct RAdamW : RAdamFamily<true> {
  static constexpr std::string_view name = "radamw";
};

}  // namespace amp
