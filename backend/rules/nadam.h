// NAdam (Dozat 2016) as torch.optim.NAdam: Adam with Nesterov momentum and an increasing coefficient mu_t = beta1
// (1 - 0.96^(t momentum_decay) / 2). Decay is added to the gradient (nadam) or decoupled (nadamw).
#pragma once

#include "backend/update_rule.h"

namespace amp {

template <bool Decoupled>
struct NAdamElement {
  static constexpr int moments = 2;
  template <class T>
  struct Scalars {
    T shrink, coupled_decay, beta1_weight, beta2, beta2_weight, bias2, eps;
    T gradient, momentum;  // step sizes along g and along m
  };
  HD static double mu(const RuleSettings& s, int64_t t) {
    return s.beta1 * (1 - 0.5 * std::pow(0.96, static_cast<double>(t) * s.momentum_decay));
  }
  HD static void begin_step(const RuleSettings& s, int64_t t, double (&step_scalars)[kStepScalars]) {
    // The product mu_1 .. mu_t is at most beta1^t, so it becomes negligible before the loop gets long.
    double product = 1;
    if (std::pow(s.beta1, static_cast<double>(t)) < 1e-20) product = 0;
    for (int64_t i = 1; i <= t && product != 0; ++i) product *= mu(s, i);
    const double now = mu(s, t), next = mu(s, t + 1);
    step_scalars[0] = (1 - now) / (1 - product);
    step_scalars[1] = next / (1 - product * next);
    step_scalars[2] = 1 - std::pow(s.beta2, static_cast<double>(t));
  }
  template <class T>
  HD static Scalars<T> scalars(const RuleSettings& s, const RuleStep& step) {
    return {static_cast<T>(Decoupled ? 1 - step.lr * step.decay : 1.0),
            static_cast<T>(Decoupled ? 0.0 : step.decay),
            static_cast<T>(1 - s.beta1),
            static_cast<T>(s.beta2),
            static_cast<T>(1 - s.beta2),
            static_cast<T>(step.scalars[2]),
            static_cast<T>(s.eps),
            static_cast<T>(step.lr * step.scalars[0]),
            static_cast<T>(step.lr * step.scalars[1])};
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
    const T root = std::sqrt(v / c.bias2) + c.eps;
    p -= c.gradient * g / root;
    return p - c.momentum * m / root;
  }
};

template <bool Decoupled>
struct NAdamFamily : RuleOf<NAdamElement<Decoupled>> {
  static constexpr RuleKey keys[] = {
      kBeta1, kBeta2, kEps, {"momentum_decay", &RuleSettings::momentum_decay, 0.004, 0, kNoLimit}};
};

struct NAdam : NAdamFamily<false> {
  static constexpr std::string_view name = "nadam";
};
struct NAdamW : NAdamFamily<true> {
  static constexpr std::string_view name = "nadamw";
};

}  // namespace amp
