// An update rule: computes the step of one element of a parameter, given its gradient. CPU and GPU compile the same
// source. To add a rule, write a file in backend/rules and add its row in backend/update_rules.h. A rule is
//
//   struct Lion {
//     static constexpr std::string_view name = "lion";
//     static constexpr RuleKey keys[] = {...};               // what it may be set to, with its reference's defaults
//     static int moments(const RuleSettings&);               // arrays of state per parameter, of its size: 0 to 3
//     template <class F>
//     static void visit(const RuleSettings&, F&& f);         // f(Element{}) with the variant that is asked for
//   };
//
// and an Element, compiled for both devices (T is float, or double on the CPU),
//
//   struct LionElement {
//     static constexpr int moments = 1;
//     template <class T> struct Scalars { ... };                        // the scalars of a span of elements, in T
//     // Called once per step t = 1, 2, .. Writes the values that all elements share.
//     HD static void begin_step(const RuleSettings&, int64_t t, double (&step_scalars)[kStepScalars]);
//     template <class T> HD static Scalars<T> scalars(const RuleSettings&, const RuleStep&);
//     template <class T> HD static T step(const Scalars<T>&, T p, T g, T& m, T& v);       // returns the new p
//   };
//
// With three moments step() receives the third as `T& u`. A rule that needs norms of a whole tensor (LAMB) sets
// `needs_norms`:
//
//     static constexpr bool needs_norms = true;
//     template <class T> HD static NormTerms<T> norm_terms(const Scalars<T>&, T p, T g, T m, T v);   // changes nothing
//
// A pass over the tensor sums the squares of both terms before any element is updated. norm_terms() receives scalars
// that were computed with norms 0.
//
// A second-order rule (AdaHessian) sets `needs_hessian_diagonal`: step() receives a last argument T h, the estimate of
// the Hessian's diagonal at the element. It is computed at steps t with (t - 1) % hessian_interval == 0
// (trainer/loop/curvature.h).
//
//     static constexpr bool needs_hessian_diagonal = true;
//     template <class T> HD static T step(const Scalars<T>& c, T p, T g, T& m, T& v, T h);
//
// With `samples_labels`, h is instead a gradient for labels that are sampled from the model's outputs (Sophia-G).
//
// A rule whose step depends on earlier steps through scalars (Schedule-Free) has a begin_step() that receives the
// schedule's rate. Its step scalars persist from step to step and are stored in checkpoints. A rule whose evaluated
// weights differ from the trained ones defines evaluated():
//
//     HD static void begin_step(const RuleSettings&, int64_t t, double lr, double (&step_scalars)[kStepScalars]);
//     template <class T> static T evaluated(const RuleSettings&, T p, T m);
//
// A rule may define the result of step() for zero gradients and moments, if that is cheaper:
//
//     template <class T> HD static T step_zero_grad(const Scalars<T>& c, T p);
//
// A rule that needs a whole tensor, or keeps state of another shape, is a tensor-wise optimizer
// (backend/tensor_rule.h).
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>

#include "base/dtype.h"
#include "base/simd.h"

namespace amp {

constexpr int kStepScalars = 5;
constexpr int kRuleNorms = 2;

// Settings of all rules. Each rule uses those that its keys name.
struct RuleSettings {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double momentum = 0, dampening = 0;
  bool nesterov = false;
  double alpha = 0.99;                                             // decay of the mean of squares
  double momentum_decay = 0.004;                                   // of nadam
  double lr_decay = 0, initial_accumulator = 0;                    // of adagrad
  double amsgrad = 0, centered = 0;                                // flags: 0 or 1
  double trust_coeff = 0.001, trust_clip = 0, always_adapt = 0;    // of lars and lamb; the last two are flags
  double hessian_power = 1, rho = 0.01;                            // of adahessian; rho: of sophia
  double hessian_interval = 1;                                     // steps between two estimates of the diagonal
  double average_kernels = 0, gaussian = 0;                        // flags for the estimate of the Hessian's diagonal
  double weight_lr_power = 2, r = 0;                               // of schedule_free
  double eps2 = 1e-3, clip_threshold = 1, decay_rate = -0.8;       // of adafactor
  double scale_parameter = 0, relative_step = 0, warmup_init = 0;  // flags of adafactor
  double delta = 0.1, wd_ratio = 0.1;                              // of adamp and sgdp
  double ns_steps = 5, match_rms_adamw = 0;                        // of muon; the last one is a flag
};

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// A setting of a rule, as --optim_args names it. Range [low, high), or [low, high] if closed.
struct RuleKey {
  std::string_view name;
  double RuleSettings::*value;
  double initial, low, high;
  std::string_view flag = {};  // a command-line flag that also sets this key
  bool truth = false;          // a flag: the value is 0 or 1
  bool closed = false, integer = false;
};

constexpr RuleKey truth_key(std::string_view name, double RuleSettings::*value) {
  return {name, value, 0, 0, 2, {}, true};
}

constexpr RuleKey kBeta1{"beta1", &RuleSettings::beta1, 0.9, 0, 1, "adam_beta1"};
constexpr RuleKey kBeta2{"beta2", &RuleSettings::beta2, 0.999, 0, 1, "adam_beta2"};
constexpr RuleKey kEps{"eps", &RuleSettings::eps, 1e-8, 0, kNoLimit, "adam_epsilon"};
constexpr RuleKey kMomentum{"momentum", &RuleSettings::momentum, 0, 0, 1, "momentum"};
constexpr RuleKey kTrustClip = truth_key("trust_clip", &RuleSettings::trust_clip);
constexpr RuleKey kAlwaysAdapt = truth_key("always_adapt", &RuleSettings::always_adapt);

struct RuleStep {
  double lr = 0;                      // the schedule's rate times the span's factor
  double decay = 0;                   // weight decay; 0 if the span has none
  double scalars[kStepScalars] = {};  // written by begin_step()
  double norms[kRuleNorms] = {};      // norms of the tensor, for rules that need them
};

template <class T>
struct NormTerms {
  T first, second;
};

template <class Element>
constexpr bool kNeedsNorms = requires {
  Element::needs_norms;
};

template <class Element>
constexpr bool kNeedsHessianDiagonal = requires {
  Element::needs_hessian_diagonal;
};

template <class Element>
constexpr bool kSamplesLabels = requires {
  Element::samples_labels;
};

// True if the Element's moments may be stored in 8 bits: the first is signed, the second is not negative.
template <class Element>
constexpr bool kQuantizes = requires {
  Element::quantizes;
};

// True if a step's scalars depend on those of the previous step.
template <class Element>
constexpr bool kKeepsStepScalars = requires(const RuleSettings& s, double (&step_scalars)[kStepScalars]) {
  Element::begin_step(s, int64_t{1}, 0.0, step_scalars);
};

template <class Element>
HD inline void begin_rule_step(const RuleSettings& s, int64_t t, [[maybe_unused]] double lr,
                               double (&step_scalars)[kStepScalars]) {
  if constexpr (kKeepsStepScalars<Element>) {
    Element::begin_step(s, t, lr, step_scalars);
  } else {
    Element::begin_step(s, t, step_scalars);
  }
}

template <class Element, class T>
AMP_INLINE HD inline T step_element(const typename Element::template Scalars<T>& c, T p, T g, T& m, T& v, T& u,
                                    [[maybe_unused]] T h) {
  if constexpr (kNeedsHessianDiagonal<Element>) {
    return Element::template step<T>(c, p, g, m, v, h);
  } else if constexpr (Element::moments > 2) {
    return Element::template step<T>(c, p, g, m, v, u);
  } else {
    return Element::template step<T>(c, p, g, m, v);
  }
}

// Base of rules with a single variant for all settings.
template <class Element>
struct RuleOf {
  static constexpr std::array<RuleKey, 0> keys{};  // rules with settings define their own keys
  static int moments(const RuleSettings&) { return Element::moments; }
  template <class F>
  static void visit(const RuleSettings&, F&& f) {
    f(Element{});
  }
};

// Returns SAM's factor for the unscaled gradients, given their 2-norm.
HD inline double sam_ascent(double rho, double norm) { return rho / (norm + 1e-12); }

// AdaHessian's spatial averaging: replaces an estimate by its mean magnitude over a convolution kernel, in place.
template <class T>
HD inline void average_kernel(T* h, int64_t n) {
  T sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += h[i] < 0 ? -h[i] : h[i];
  for (int64_t i = 0; i < n; ++i) h[i] = sum / static_cast<T>(n);
}

// Adaptive gradient clipping (Brock et al. 2021, arXiv:2102.06171), as in timm: returns the factor for a unit's
// gradient, given the 2-norms of its weights and its gradient.
HD inline double adaptive_clip(double weights, double gradient, double factor) {
  const double most = (weights > 1e-3 ? weights : 1e-3) * factor;
  return gradient < most ? 1 : most / (gradient > 1e-6 ? gradient : 1e-6);
}

// Returns from + weight (to - from), computed as torch.lerp does: exact at both ends.
template <class T>
AMP_INLINE HD inline T rule_lerp(T from, T to, T weight) {
  const T gap = to - from;
  return weight < T(0.5) ? from + weight * gap : to - gap * (1 - weight);
}

}  // namespace amp
