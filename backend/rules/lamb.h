// LAMB (You et al. 2020, arXiv:1904.00962) as timm.optim.Lamb: d = Adam's direction + wd p, p -= lr |p| / |d| d,
// with norms of the whole tensor. For tensors without decay the ratio is 1, unless always_adapt is set. trust_clip
// limits it to 1.
#pragma once

#include "backend/update_rule.h"

namespace amp {

struct LambElement {
  static constexpr int moments = 2;
  static constexpr bool needs_norms = true;
  template <class T>
  struct Scalars {
    T weight_decay, beta1_weight, beta2, beta2_weight, bias1, bias2_sqrt, eps, lr, trust;
  };
  HD static void begin_step(const RuleSettings& s, int64_t t, double (&step_scalars)[kStepScalars]) {
    step_scalars[0] = 1 - std::pow(s.beta1, static_cast<double>(t));
    step_scalars[1] = 1 - std::pow(s.beta2, static_cast<double>(t));
  }
  template <class T>
  HD static Scalars<T> scalars(const RuleSettings& s, const RuleStep& step) {
    double trust = 1;
    if ((step.decay != 0 || s.always_adapt != 0) && step.norms[0] > 0 && step.norms[1] > 0) {
      trust = step.norms[0] / step.norms[1];
      if (s.trust_clip != 0 && trust > 1) trust = 1;
    }
    return {static_cast<T>(step.decay),  static_cast<T>(1 - s.beta1),     static_cast<T>(s.beta2),
            static_cast<T>(1 - s.beta2), static_cast<T>(step.scalars[0]), static_cast<T>(std::sqrt(step.scalars[1])),
            static_cast<T>(s.eps),       static_cast<T>(step.lr),         static_cast<T>(trust)};
  }
  template <class T>
  AMP_INLINE HD static T direction(const Scalars<T>& c, T p, T g, T& m, T& v) {
    m = rule_lerp(m, g, c.beta1_weight);
    v = v * c.beta2 + c.beta2_weight * g * g;
    return m / c.bias1 / (std::sqrt(v) / c.bias2_sqrt + c.eps) + c.weight_decay * p;
  }
  template <class T>
  AMP_INLINE HD static NormTerms<T> norm_terms(const Scalars<T>& c, T p, T g, T m, T v) {
    return {p, direction(c, p, g, m, v)};
  }
  template <class T>
  AMP_INLINE HD static T step(const Scalars<T>& c, T p, T g, T& m, T& v) {
    const T d = direction(c, p, g, m, v);
    return p - c.lr * (d * c.trust);
  }
};

struct Lamb : RuleOf<LambElement> {
  static constexpr std::string_view name = "lamb";
  static constexpr RuleKey keys[] = {
      kBeta1, kBeta2, {"eps", &RuleSettings::eps, 1e-6, 0, kNoLimit}, kTrustClip, kAlwaysAdapt};
};

}  // namespace amp
