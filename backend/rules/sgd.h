// Stochastic gradient descent as torch.optim.SGD, dampening 0: d = g + wd p; m = mu m + d; p -= lr (nesterov ? d + mu m
// : m). Without momentum: p -= lr d, and nothing is kept.
#pragma once

#include "backend/update_rule.h"

namespace amp {

template <bool Momentum, bool Nesterov>
struct SgdElement {
  static constexpr int moments = Momentum ? 1 : 0;
  template <class T>
  struct Scalars {
    T lr, weight_decay, momentum;
  };
  HD static void once(const RuleSettings&, int64_t, double (&)[kRuleFacts]) {}
  template <class T>
  HD static Scalars<T> scalars(const RuleSettings& s, const RuleStep& step) {
    return {static_cast<T>(step.lr), static_cast<T>(step.decay), static_cast<T>(s.momentum)};
  }
  template <class T>
  AMP_INLINE HD static T move(const Scalars<T>& c, T p, T g, T& m, T&) {
    T d = g + c.weight_decay * p;
    if constexpr (Momentum) {
      const T buffer = c.momentum * m + d;
      m = buffer;
      d = Nesterov ? d + c.momentum * buffer : buffer;
    }
    return p - c.lr * d;
  }
};

struct Sgd {
  static constexpr std::string_view name = "sgd";
  static int moments(const RuleSettings& s) { return s.momentum != 0 ? 1 : 0; }
  template <class F>
  static void visit(const RuleSettings& s, F&& f) {
    if (s.momentum == 0) return f(SgdElement<false, false>{});
    s.nesterov ? f(SgdElement<true, true>{}) : f(SgdElement<true, false>{});
  }
};

}  // namespace amp
