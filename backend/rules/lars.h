// LARS (You et al. 2017, arXiv:1708.03888) as timm.optim.Lars: SGD on (g + wd p) c |p| / (|g| + wd |p| + eps), with
// norms of the whole tensor. A tensor without decay takes g as it is, unless always_adapt is set; trust_clip (LARC)
// bounds the ratio by the learning rate.
#pragma once

#include "backend/rules/sgd.h"

namespace amp {

template <bool Momentum, bool Nesterov>
struct LarsElement {
  using Descent = SgdElement<Momentum, Nesterov, true>;
  static constexpr int moments = Descent::moments;
  static constexpr bool needs_norms = true;
  template <class T>
  struct Scalars {
    typename Descent::template Scalars<T> descent;  // scalars of SGD without decay
    T weight_decay, trust;
  };
  HD static void begin_step(const RuleSettings& s, int64_t t, double (&step_scalars)[kStepScalars]) {
    Descent::begin_step(s, t, step_scalars);
  }
  template <class T>
  HD static Scalars<T> scalars(const RuleSettings& s, const RuleStep& step) {
    double trust = 1;
    if (step.decay != 0 || s.always_adapt != 0) {
      if (step.norms[0] > 0 && step.norms[1] > 0)
        trust = s.trust_coeff * step.norms[0] / (step.norms[1] + step.norms[0] * step.decay + s.eps);
      if (s.trust_clip != 0) trust = trust > step.lr ? 1 : trust / step.lr;
    }
    RuleStep plain = step;
    plain.decay = 0;
    return {Descent::template scalars<T>(s, plain), static_cast<T>(step.decay), static_cast<T>(trust)};
  }
  template <class T>
  AMP_INLINE HD static NormTerms<T> norm_terms(const Scalars<T>&, T p, T g, T, T) {
    return {p, g};
  }
  template <class T>
  AMP_INLINE HD static T step(const Scalars<T>& c, T p, T g, T& m, T& v) {
    return Descent::template step<T>(c.descent, p, (g + c.weight_decay * p) * c.trust, m, v);
  }
};

struct Lars {
  static constexpr std::string_view name = "lars";
  static constexpr RuleKey keys[] = {kMomentum,
                                     {"dampening", &RuleSettings::dampening, 0, 0, 1},
                                     {"trust_coeff", &RuleSettings::trust_coeff, 0.001, 0, kNoLimit},
                                     {"eps", &RuleSettings::eps, 1e-8, 0, kNoLimit},
                                     kTrustClip,
                                     kAlwaysAdapt};
  static int moments(const RuleSettings& s) { return Sgd::moments(s); }
  template <class F>
  static void visit(const RuleSettings& s, F&& f) {
    if (s.momentum == 0) return f(LarsElement<false, false>{});
    s.nesterov ? f(LarsElement<true, true>{}) : f(LarsElement<true, false>{});
  }
};

}  // namespace amp
