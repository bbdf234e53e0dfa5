// RMSprop (Tieleman and Hinton 2012). rmsprop is torch.optim.RMSprop: s = alpha s + (1 - alpha) g^2, d = g /
// (sqrt(s) + eps), b = momentum b + d, p -= lr b.
// rmsprop_tf is TensorFlow's version, as timm.optim.RMSpropTF: s starts at 1, eps is inside the root, and the
// momentum includes the learning rate: b = momentum b + lr d, p -= b.
// Decay is added to the gradient. centered (Graves 2013): s minus the square of the mean gradient a, clamped so
// that rounding does not make it negative.
#pragma once

#include "backend/update_rule.h"

namespace amp {

template <bool TensorFlow, bool Momentum, bool Centered>
struct RmspropElement {
  static constexpr int moments = 1 + Momentum + Centered;  // s, b, a
  template <class T>
  struct Scalars {
    T decay, alpha, rest, eps, momentum, lr, first;
  };
  HD static void begin_step(const RuleSettings&, int64_t t, double (&step_scalars)[kStepScalars]) {
    step_scalars[0] = TensorFlow && t == 1 ? 1 : 0;
  }
  template <class T>
  HD static Scalars<T> scalars(const RuleSettings& s, const RuleStep& step) {
    return {static_cast<T>(step.decay), static_cast<T>(s.alpha), static_cast<T>(1 - s.alpha),    static_cast<T>(s.eps),
            static_cast<T>(s.momentum), static_cast<T>(step.lr), static_cast<T>(step.scalars[0])};
  }
  template <class T>
  AMP_INLINE HD static T step(const Scalars<T>& c, T p, T g, T& s, T& second) {
    return step<T>(c, p, g, s, second, second);  // at most one of b and a is kept, and the other is not used
  }
  template <class T>
  AMP_INLINE HD static T step(const Scalars<T>& c, T p, T g, T& s, T& b, T& a) {
    g += c.decay * p;
    if constexpr (TensorFlow) {
      s += c.first;
      s += (g * g - s) * c.rest;
    } else {
      s = s * c.alpha + c.rest * g * g;
    }
    T square = s;
    if constexpr (Centered) {
      a = TensorFlow ? a + (g - a) * c.rest : rule_lerp(a, g, c.rest);
      square = s - a * a;
      square = square < 0 ? 0 : square;
    }
    const T root = TensorFlow ? std::sqrt(square + c.eps) : std::sqrt(square) + c.eps;
    if constexpr (!Momentum) return p - c.lr * g / root;
    if constexpr (TensorFlow) {
      b = b * c.momentum + c.lr * g / root;
      return p - b;
    }
    b = b * c.momentum + g / root;
    return p - c.lr * b;
  }
};

constexpr RuleKey kCentered = truth_key("centered", &RuleSettings::centered);

template <bool TensorFlow>
struct RmspropFamily {
  static int moments(const RuleSettings& s) { return 1 + (s.momentum != 0) + (s.centered != 0); }
  template <class F>
  static void visit(const RuleSettings& s, F&& f) {
    if (s.momentum != 0)
      s.centered != 0 ? f(RmspropElement<TensorFlow, true, true>{}) : f(RmspropElement<TensorFlow, true, false>{});
    else
      s.centered != 0 ? f(RmspropElement<TensorFlow, false, true>{}) : f(RmspropElement<TensorFlow, false, false>{});
  }
};

struct Rmsprop : RmspropFamily<false> {
  static constexpr std::string_view name = "rmsprop";
  static constexpr RuleKey keys[] = {{"alpha", &RuleSettings::alpha, 0.99, 0, 1}, kEps, kMomentum, kCentered};
};
struct RmspropTf : RmspropFamily<true> {
  static constexpr std::string_view name = "rmsprop_tf";
  static constexpr RuleKey keys[] = {{"alpha", &RuleSettings::alpha, 0.9, 0, 1},
                                     {"eps", &RuleSettings::eps, 1e-10, 0, kNoLimit},
                                     kMomentum,
                                     kCentered};
};

}  // namespace amp
