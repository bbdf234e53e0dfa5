// Adadelta (Zeiler 2012, arXiv:1212.5701) as torch.optim.Adadelta: s = rho s + (1 - rho) g^2, d = g sqrt(a + eps) /
// sqrt(s + eps), a = rho a + (1 - rho) d^2, p -= lr d. Its learning rate is about 1. Decay is added to the gradient.
#pragma once

#include "backend/update_rule.h"

namespace amp {

struct AdadeltaElement {
  static constexpr int moments = 2;  // s, a
  template <class T>
  struct Scalars {
    T decay, rho, rest, eps, lr;
  };
  HD static void begin_step(const RuleSettings&, int64_t, double (&)[kStepScalars]) {}
  template <class T>
  HD static Scalars<T> scalars(const RuleSettings& s, const RuleStep& step) {
    return {static_cast<T>(step.decay), static_cast<T>(s.alpha), static_cast<T>(1 - s.alpha), static_cast<T>(s.eps),
            static_cast<T>(step.lr)};
  }
  template <class T>
  AMP_INLINE HD static T step(const Scalars<T>& c, T p, T g, T& s, T& a) {
    g += c.decay * p;
    s = s * c.rho + c.rest * g * g;
    const T d = std::sqrt(a + c.eps) / std::sqrt(s + c.eps) * g;
    a = a * c.rho + c.rest * d * d;
    return p - c.lr * d;
  }
};

struct Adadelta : RuleOf<AdadeltaElement> {
  static constexpr std::string_view name = "adadelta";
  static constexpr RuleKey keys[] = {{"rho", &RuleSettings::alpha, 0.9, 0, 1},
                                     {"eps", &RuleSettings::eps, 1e-6, 0, kNoLimit}};
};

}  // namespace amp
