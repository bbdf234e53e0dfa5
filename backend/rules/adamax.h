// Adamax (Kingma and Ba 2015, section 7.1) as torch.optim.Adamax: m moves by 1 - beta1, u = max(beta2 u, |g| + eps),
// p -= lr / (1 - beta1^t) m / u. Decay is added to the gradient.
#pragma once

#include "backend/update_rule.h"

namespace amp {

struct AdamaxElement {
  static constexpr int moments = 2;  // m, u
  template <class T>
  struct Scalars {
    T decay, beta1_weight, beta2, eps, step;
  };
  HD static void begin_step(const RuleSettings& s, int64_t t, double (&step_scalars)[kStepScalars]) {
    step_scalars[0] = 1 - std::pow(s.beta1, static_cast<double>(t));
  }
  template <class T>
  HD static Scalars<T> scalars(const RuleSettings& s, const RuleStep& step) {
    return {static_cast<T>(step.decay), static_cast<T>(1 - s.beta1), static_cast<T>(s.beta2), static_cast<T>(s.eps),
            static_cast<T>(step.lr / step.scalars[0])};
  }
  template <class T>
  AMP_INLINE HD static T step(const Scalars<T>& c, T p, T g, T& m, T& u) {
    g += c.decay * p;
    m = rule_lerp(m, g, c.beta1_weight);
    const T kept = u * c.beta2, now = std::fabs(g) + c.eps;
    u = now > kept ? now : kept;
    return p - c.step * m / u;
  }
};

struct Adamax : RuleOf<AdamaxElement> {
  static constexpr std::string_view name = "adamax";
  static constexpr RuleKey keys[] = {kBeta1, kBeta2, kEps};
};

}  // namespace amp
