// Adagrad (Duchi et al. 2011) as torch.optim.Adagrad: s += g^2, p -= lr / (1 + (t - 1) lr_decay) g / (sqrt(s) + eps); s
// begins at initial_accumulator_value. Decay is added to the gradient.
#pragma once

#include "backend/update_rule.h"

namespace amp {

struct AdagradElement {
  static constexpr int moments = 1;  // s, stored without its initial value
  template <class T>
  struct Scalars {
    T decay, eps, first, lr;
  };
  HD static void begin_step(const RuleSettings& s, int64_t t, double (&step_scalars)[kStepScalars]) {
    step_scalars[0] = 1 + static_cast<double>(t - 1) * s.lr_decay;
    step_scalars[1] = t == 1 ? s.initial_accumulator : 0;
  }
  template <class T>
  HD static Scalars<T> scalars(const RuleSettings& s, const RuleStep& step) {
    return {static_cast<T>(step.decay), static_cast<T>(s.eps), static_cast<T>(step.scalars[1]),
            static_cast<T>(step.lr / step.scalars[0])};
  }
  template <class T>
  AMP_INLINE HD static T step(const Scalars<T>& c, T p, T g, T& s, T&) {
    g += c.decay * p;
    s = s + c.first + g * g;
    return p - c.lr * g / (std::sqrt(s) + c.eps);
  }
};

struct Adagrad : RuleOf<AdagradElement> {
  static constexpr std::string_view name = "adagrad";
  static constexpr RuleKey keys[] = {{"lr_decay", &RuleSettings::lr_decay, 0, 0, kNoLimit},
                                     {"initial_accumulator_value", &RuleSettings::initial_accumulator, 0, 0, kNoLimit},
                                     {"eps", &RuleSettings::eps, 1e-10, 0, kNoLimit}};
};

}  // namespace amp
