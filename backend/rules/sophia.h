// Sophia (Liu et al. 2023, arXiv:2305.14342): momentum divided by a moving average of estimates of the Hessian's
// diagonal, with the quotient clipped.
//
// Sophia-H, as pytorch_optimizer.SophiaH, with Hutchinson's estimates h:
//   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) h at steps that have a new h,
//   p = (1 - lr decay) p - lr clip(m / max(v, eps), rho).
// gaussian: the random vector u of the estimate h = u * (H u) has normal numbers, otherwise random signs.
//
// Sophia-G, as the authors' SophiaG, with Gauss-Newton-Bartlett estimates: h is sqrt(B) times the gradient of the mean
// loss of B items whose labels are sampled from the model's outputs:
//   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) h^2 at steps that have a new h,
//   p = (1 - lr decay) p - lr sign(m) min(|m| / (rho v + eps), 1).
#pragma once

#include "backend/rules/adahessian.h"

namespace amp {

struct SophiaHElement {
  static constexpr int moments = 2;
  static constexpr bool needs_hessian_diagonal = true;
  template <class T>
  struct Scalars {
    T shrink, beta1_weight, beta2_weight, eps, rho, lr;
  };
  HD static void begin_step(const RuleSettings& s, int64_t t, double (&step_scalars)[kStepScalars]) {
    step_scalars[0] = (t - 1) % static_cast<int64_t>(s.hessian_interval) == 0 ? 1 : 0;
  }
  template <class T>
  HD static Scalars<T> scalars(const RuleSettings& s, const RuleStep& step) {
    return {static_cast<T>(1 - step.lr * step.decay),
            static_cast<T>(1 - s.beta1),
            static_cast<T>((1 - s.beta2) * step.scalars[0]),
            static_cast<T>(s.eps),
            static_cast<T>(s.rho),
            static_cast<T>(step.lr)};
  }
  template <class T>
  AMP_INLINE HD static T step(const Scalars<T>& c, T p, T g, T& m, T& v, T h) {
    p *= c.shrink;
    m = rule_lerp(m, g, c.beta1_weight);
    v = rule_lerp(v, h, c.beta2_weight);
    T d = m / (v > c.eps ? v : c.eps);
    d = d > c.rho ? c.rho : d;
    d = d < -c.rho ? -c.rho : d;
    return p - c.lr * d;
  }
};

struct SophiaGElement {
  static constexpr int moments = 2;
  static constexpr bool needs_hessian_diagonal = true;
  static constexpr bool samples_labels = true;
  template <class T>
  struct Scalars {
    T shrink, beta1, beta1_weight, beta2, beta2_weight, eps, rho, lr;
  };
  HD static void begin_step(const RuleSettings& s, int64_t t, double (&step_scalars)[kStepScalars]) {
    SophiaHElement::begin_step(s, t, step_scalars);
  }
  template <class T>
  HD static Scalars<T> scalars(const RuleSettings& s, const RuleStep& step) {
    return {static_cast<T>(1 - step.lr * step.decay),
            static_cast<T>(s.beta1),
            static_cast<T>(1 - s.beta1),
            static_cast<T>(step.scalars[0] != 0 ? s.beta2 : 1),
            static_cast<T>(step.scalars[0] != 0 ? 1 - s.beta2 : 0),
            static_cast<T>(s.eps),
            static_cast<T>(s.rho),
            static_cast<T>(step.lr)};
  }
  template <class T>
  AMP_INLINE HD static T step(const Scalars<T>& c, T p, T g, T& m, T& v, T h) {
    p *= c.shrink;
    m = m * c.beta1 + c.beta1_weight * g;
    v = v * c.beta2 + c.beta2_weight * h * h;
    T d = m / (c.rho * v + c.eps);
    d = d > 1 ? T(1) : d;
    d = d < -1 ? T(-1) : d;
    return p - c.lr * d;
  }
};

struct SophiaH : RuleOf<SophiaHElement> {
  static constexpr std::string_view name = "sophia_h";
  static constexpr RuleKey keys[] = {{"beta1", &RuleSettings::beta1, 0.96, 0, 1},
                                     {"beta2", &RuleSettings::beta2, 0.99, 0, 1},
                                     {"eps", &RuleSettings::eps, 1e-12, 0, kNoLimit},
                                     {"rho", &RuleSettings::rho, 0.01, 0, kNoLimit},
                                     kHessianInterval(10),
                                     {"gaussian", &RuleSettings::gaussian, 1, 0, 2, {}, true}};
};

struct SophiaG : RuleOf<SophiaGElement> {
  static constexpr std::string_view name = "sophia_g";
  static constexpr RuleKey keys[] = {{"beta1", &RuleSettings::beta1, 0.965, 0, 1},
                                     {"beta2", &RuleSettings::beta2, 0.99, 0, 1},
                                     {"eps", &RuleSettings::eps, 1e-15, 0, kNoLimit},
                                     {"rho", &RuleSettings::rho, 0.04, 0, kNoLimit},
                                     kHessianInterval(10)};
};

}  // namespace amp
