// Stochastic gradient descent as torch.optim.SGD: d = g + wd p; m = mu m + (1 - dampening) d (m = d in the first
// step); p -= lr (nesterov ? d + mu m : m). Without momentum: p -= lr d, without state.
#pragma once

#include "backend/update_rule.h"

namespace amp {

template <bool Momentum, bool Nesterov, bool Dampened = false>
struct SgdElement {
  static constexpr int moments = Momentum ? 1 : 0;
  template <class T>
  struct Scalars {
    T lr, weight_decay, momentum, fresh;
  };
  HD static void begin_step(const RuleSettings& s, int64_t t, double (&step_scalars)[kStepScalars]) {
    step_scalars[0] = t == 1 ? 1 : 1 - s.dampening;
  }
  template <class T>
  HD static Scalars<T> scalars(const RuleSettings& s, const RuleStep& step) {
    return {static_cast<T>(step.lr), static_cast<T>(step.decay), static_cast<T>(s.momentum),
            static_cast<T>(step.scalars[0])};
  }
  template <class T>
  AMP_INLINE HD static T step(const Scalars<T>& c, T p, T g, T& m, T&) {
    T d = g + c.weight_decay * p;
    if constexpr (Momentum) {
      const T buffer = c.momentum * m + (Dampened ? c.fresh * d : d);
      m = buffer;
      d = Nesterov ? d + c.momentum * buffer : buffer;
    }
    return p - c.lr * d;
  }
  template <class T>
  AMP_INLINE HD static T step_zero_grad(const Scalars<T>& c, T p) {
    T none = 0;
    return step<T>(c, p, T(0), none, none);
  }
};

struct Sgd {
  static constexpr std::string_view name = "sgd";
  static constexpr RuleKey keys[] = {kMomentum, {"dampening", &RuleSettings::dampening, 0, 0, 1}};
  static int moments(const RuleSettings& s) { return s.momentum != 0 ? 1 : 0; }
  template <class F>
  static void visit(const RuleSettings& s, F&& f) {
    if (s.momentum == 0) return f(SgdElement<false, false>{});
    if (s.dampening != 0) return f(SgdElement<true, false, true>{});
    s.nesterov ? f(SgdElement<true, true>{}) : f(SgdElement<true, false>{});
  }
};

}  // namespace amp
