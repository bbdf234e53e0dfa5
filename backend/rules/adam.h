// Adam (Kingma and Ba 2015, decay added to the gradient) and AdamW (Loshchilov and Hutter 2019, decoupled decay),
// as in the single-tensor CPU path of torch.optim.Adam and AdamW. amsgrad (Reddi et al. 2018) divides by the
// largest second moment so far.
#pragma once

#include "backend/update_rule.h"

namespace amp {

// NearZero: lerp's formula for a weight 1 - beta1 below one half, chosen as in torch.
template <bool Decoupled, bool NearZero, bool Amsgrad>
struct AdamElement {
  static constexpr int moments = Amsgrad ? 3 : 2;  // m, v, the largest v
  static constexpr bool quantizes = true;
  template <class T>
  struct Scalars {
    T shrink;         // AdamW: 1 - lr * weight_decay; otherwise 1
    T coupled_decay;  // Adam: weight_decay; otherwise 0
    T beta1_weight;   // 1 - beta1
    T beta2, beta2_weight;
    T bias2_sqrt;  // sqrt(1 - beta2^t)
    T eps;
    T step;  // lr / (1 - beta1^t)
  };
  HD static void begin_step(const RuleSettings& s, int64_t t, double (&step_scalars)[kStepScalars]) {
    step_scalars[0] = 1 - std::pow(s.beta1, static_cast<double>(t));
    step_scalars[1] = 1 - std::pow(s.beta2, static_cast<double>(t));
  }
  template <class T>
  HD static Scalars<T> scalars(const RuleSettings& s, const RuleStep& step) {
    Scalars<T> k;
    k.shrink = static_cast<T>(Decoupled ? 1 - step.lr * step.decay : 1.0);
    k.coupled_decay = static_cast<T>(Decoupled ? 0.0 : step.decay);
    k.beta1_weight = static_cast<T>(1 - s.beta1);
    k.beta2 = static_cast<T>(s.beta2);
    k.beta2_weight = static_cast<T>(1 - s.beta2);
    k.bias2_sqrt = static_cast<T>(std::sqrt(step.scalars[1]));
    k.eps = static_cast<T>(s.eps);
    k.step = static_cast<T>(step.lr / step.scalars[0]);
    return k;
  }
  template <class T>
  AMP_INLINE HD static T step_zero_grad(const Scalars<T>& c, T p) {
    return p * c.shrink;
  }
  template <class T>
  AMP_INLINE HD static T step(const Scalars<T>& c, T p, T g, T& m, T& v) {
    return step<T>(c, p, g, m, v, v);
  }
  template <class T>
  AMP_INLINE HD static T step(const Scalars<T>& c, T p, T g, T& m, T& v, T& largest) {
    p *= c.shrink;
    g += c.coupled_decay * p;
    const T gap = g - m;
    const T first = NearZero ? m + c.beta1_weight * gap : g - gap * (1 - c.beta1_weight);
    const T second = v * c.beta2 + c.beta2_weight * g * g;
    m = first;
    v = second;
    T root = second;
    if constexpr (Amsgrad) root = largest = largest > second ? largest : second;
    return p - c.step * first / (std::sqrt(root) / c.bias2_sqrt + c.eps);
  }
};

template <bool Decoupled>
struct AdamFamily {
  static constexpr RuleKey keys[] = {kBeta1, kBeta2, kEps, truth_key("amsgrad", &RuleSettings::amsgrad)};
  static int moments(const RuleSettings& s) { return s.amsgrad != 0 ? 3 : 2; }
  template <class F>
  static void visit(const RuleSettings& s, F&& f) {
    if (static_cast<float>(1 - s.beta1) < 0.5f)
      s.amsgrad != 0 ? f(AdamElement<Decoupled, true, true>{}) : f(AdamElement<Decoupled, true, false>{});
    else
      s.amsgrad != 0 ? f(AdamElement<Decoupled, false, true>{}) : f(AdamElement<Decoupled, false, false>{});
  }
};

struct Adam : AdamFamily<false> {
  static constexpr std::string_view name = "adam";
};
struct AdamW : AdamFamily<true> {
  static constexpr std::string_view name = "adamw";
};

}  // namespace amp
