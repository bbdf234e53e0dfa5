// AdaHessian (Yao et al. 2021, arXiv:2006.00719) as timm.optim.Adahessian: Adam with the second moment of an
// estimate h of the Hessian's diagonal,
//   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) h^2,
//   p = (1 - lr decay) p - lr / (1 - beta1^t) m / ((v / (1 - beta2^t))^(power / 2) + eps).
// avg_conv_kernel: h is replaced by its mean magnitude over each convolution kernel.
#pragma once

#include "backend/update_rule.h"

namespace amp {

template <bool SquareRoot>  // true if hessian_power is 1
struct AdaHessianElement {
  static constexpr int moments = 2;
  static constexpr bool needs_hessian_diagonal = true;
  template <class T>
  struct Scalars {
    T shrink, beta1, beta1_weight, beta2, beta2_weight, bias2, half_power, eps;
    T step;  // lr / (1 - beta1^t)
  };
  HD static void begin_step(const RuleSettings& s, int64_t t, double (&step_scalars)[kStepScalars]) {
    step_scalars[0] = 1 - std::pow(s.beta1, static_cast<double>(t));
    step_scalars[1] = 1 - std::pow(s.beta2, static_cast<double>(t));
  }
  template <class T>
  HD static Scalars<T> scalars(const RuleSettings& s, const RuleStep& step) {
    return {static_cast<T>(1 - step.lr * step.decay),
            static_cast<T>(s.beta1),
            static_cast<T>(1 - s.beta1),
            static_cast<T>(s.beta2),
            static_cast<T>(1 - s.beta2),
            static_cast<T>(step.scalars[1]),
            static_cast<T>(s.hessian_power / 2),
            static_cast<T>(s.eps),
            static_cast<T>(step.lr / step.scalars[0])};
  }
  template <class T>
  AMP_INLINE HD static T step(const Scalars<T>& c, T p, T g, T& m, T& v, T h) {
    p *= c.shrink;
    m = m * c.beta1 + c.beta1_weight * g;
    v = v * c.beta2 + c.beta2_weight * h * h;
    const T mean = v / c.bias2;
    const T root = SquareRoot ? std::sqrt(mean) : std::pow(mean, c.half_power);
    return p - c.step * m / (root + c.eps);
  }
};

constexpr RuleKey kHessianInterval(double initial) {
  return {"hessian_update_interval", &RuleSettings::hessian_interval, initial, 1, kNoLimit, {}, false, false, true};
}

struct AdaHessian {
  static constexpr std::string_view name = "adahessian";
  static constexpr RuleKey keys[] = {kBeta1,
                                     kBeta2,
                                     kEps,
                                     {"hessian_power", &RuleSettings::hessian_power, 1, 0, 1, {}, false, true},
                                     kHessianInterval(1),
                                     {"avg_conv_kernel", &RuleSettings::average_kernels, 1, 0, 2, {}, true}};
  static int moments(const RuleSettings&) { return 2; }
  template <class F>
  static void visit(const RuleSettings& s, F&& f) {
    s.hessian_power == 1 ? f(AdaHessianElement<true>{}) : f(AdaHessianElement<false>{});
  }
};

}  // namespace amp
