// Loops of the optimizer over one shard: finite check and norm, the rule's step for each element, averages,
// Lookahead, and norms for LAMB and LARS. Loops are compiled per instruction set and per rule
// (backend/update_rules.h).

#include "backend/cpu/update/update_loops.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "backend/update_rules.h"
#include "base/error.h"
#include "base/simd.h"

namespace amp::kernel {

namespace {
constexpr int kLanes = 4;  // lanes of a vector (32 bytes of double, native from AVX2 on); loops use four vectors

template <class T>
struct Vec {
  typedef T type __attribute__((vector_size(kLanes * sizeof(T))));
};
template <class T>
using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

// Magnitudes of floats are ordered like their bits, so one integer maximum gives both the inf-norm and the finite
// check: infinities and NaNs have the largest exponent.
template <class T>
constexpr Bits<T> kMagnitude = ~Bits<T>(0) >> 1;
template <class T>
constexpr Bits<T> kInfinity = std::bit_cast<Bits<T>>(std::numeric_limits<T>::infinity());
}  // namespace

template <class T>
ShardStats inspect(const T* g, int64_t n) {
  using F = typename Vec<T>::type;
  using U = typename Vec<Bits<T>>::type;
  using D = typename Vec<double>::type;
  ShardStats out;
  simd_for<T>([&]() AMP_INLINE {
    D sum[4] = {};
    U top[4] = {};
    int64_t i = 0;
    for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
      for (int k = 0; k < 4; ++k) {
        F x;
        U u;
        std::memcpy(&x, g + i + k * kLanes, sizeof x);
        std::memcpy(&u, &x, sizeof u);
        const D d = __builtin_convertvector(x, D);
        sum[k] += d * d;
        u &= kMagnitude<T>;
        top[k] = u > top[k] ? u : top[k];
      }
    }
    Bits<T> most = 0;
    double total = 0;
    for (; i < n; ++i) {
      const Bits<T> u = std::bit_cast<Bits<T>>(g[i]) & kMagnitude<T>;
      most = u > most ? u : most;
      total += static_cast<double>(g[i]) * static_cast<double>(g[i]);
    }
    for (int k = 0; k < 4; ++k) {
      for (int j = 0; j < kLanes; ++j) {
        total += sum[k][j];
        most = top[k][j] > most ? top[k][j] : most;
      }
    }
    out.found_inf = most >= kInfinity<T>;
    out.max_abs = static_cast<double>(std::bit_cast<T>(most));
    out.sum_squares = total;
  });
  return out;
}

namespace {
// A function that updates a part of a shard. scalars: the Scalars<T> of the rule's Element.
template <class T>
using ShardStep = void (*)(const ShardSpans<T>&, const GradTransform<T>&, const void* scalars);

template <class Element, class T>
void run(const ShardSpans<T>& s, const GradTransform<T>& a, const void* scalars) {
  simd_for<T>([&]() AMP_INLINE {
    T* __restrict p = s.p;
    const T* __restrict grad = s.g;
    T* __restrict m = s.m;
    T* __restrict v = s.v;
    T* __restrict u = s.u;
    const T* __restrict h = s.h;
    const GradTransform<T> transform = a;
    const auto c = *static_cast<const typename Element::template Scalars<T>*>(scalars);
    const int64_t n = s.n;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const T g = transformed(transform, grad[i]);
      T none = 0, x;
      if constexpr (kNeedsHessianDiagonal<Element>)
        x = Element::template step<T>(c, p[i], g, m[i], v[i], h[i]);
      else if constexpr (Element::moments == 0)
        x = Element::template step<T>(c, p[i], g, none, none);
      else if constexpr (Element::moments == 1)
        x = Element::template step<T>(c, p[i], g, m[i], none);
      else if constexpr (Element::moments == 2)
        x = Element::template step<T>(c, p[i], g, m[i], v[i]);
      else
        x = Element::template step<T>(c, p[i], g, m[i], v[i], u[i]);
      p[i] = x;
    }
  });
}

// True if elements with zero gradients may be skipped. Rules that need norms or the Hessian's diagonal depend on more
// than the element.
template <class Element>
constexpr bool kMaySkip = !kNeedsHessianDiagonal<Element> && !kNeedsNorms<Element>;

// Returns the new weight for a zero gradient. Also updates the moments in `state`, which were zero.
template <class Element, class T>
AMP_INLINE inline T step_from_zeros(const typename Element::template Scalars<T>& c, T p, T g, T (&state)[3]) {
  if constexpr (Element::moments < 3)
    return Element::template step<T>(c, p, g, state[0], state[1]);
  else
    return Element::template step<T>(c, p, g, state[0], state[1], state[2]);
}

template <class Element>
constexpr bool kHasStepZeroGrad = requires(typename Element::template Scalars<float> c) {
  Element::template step_zero_grad<float>(c, 1.0f);
};

template <class Element, class T>
void run_zero_gradient(const ShardSpans<T>& s, const GradTransform<T>&, const void* scalars) {
  simd_for<T>([&]() AMP_INLINE {
    T* __restrict p = s.p;
    const auto c = *static_cast<const typename Element::template Scalars<T>*>(scalars);
    const int64_t n = s.n;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) p[i] = Element::template step_zero_grad<T>(c, p[i]);
  });
}

// Runs `step` on parts of a shard, so that the average is updated while the weights are in the first-level cache.
// on_zeros: gradients and moments are zero and are not read.
template <class T>
void run_parts(const ShardSpans<T>& s, const GradTransform<T>& a, ShardStep<T> step, const void* scalars,
               bool on_zeros) {
  if (!s.ema && !on_zeros) return step(s, a, scalars);
  constexpr int64_t kPart = 1024;
  T zeros[4][kPart];
  for (int64_t begin = 0; begin < s.n; begin += kPart) {
    ShardSpans<T> part = s.part(begin, std::min(kPart, s.n - begin));
    if (on_zeros) {
      for (T* const z : zeros) std::fill_n(z, part.n, T(0));
      part.g = zeros[0], part.m = zeros[1], part.v = zeros[2], part.u = zeros[3];
    }
    step(part, a, scalars);
    if (s.ema) average(part.ema, part.p, part.n, a.keep);
  }
}

// Squares are added in sixteen accumulators in double, which gives the same bits on every instruction set.
template <class Element, class T>
NormTerms<double> sum_norm_terms(const ShardSpans<T>& s, const GradTransform<T>& a,
                                 const typename Element::template Scalars<T>& scalars) {
  constexpr int64_t kWidth = 16;
  double first[kWidth] = {}, second[kWidth] = {};
  simd_for<T>([&]() AMP_INLINE {
    const GradTransform<T> transform = a;
    const auto c = scalars;
    const auto add = [&](int64_t i, int64_t k) AMP_INLINE {
      const T m = Element::moments > 0 ? s.m[i + k] : T(0), v = Element::moments > 1 ? s.v[i + k] : T(0);
      const NormTerms<T> terms =
          Element::template norm_terms<T>(c, s.p[i + k], transformed(transform, s.g[i + k]), m, v);
      first[k] += static_cast<double>(terms.first) * static_cast<double>(terms.first);
      second[k] += static_cast<double>(terms.second) * static_cast<double>(terms.second);
    };
    int64_t i = 0;
    for (; i + kWidth <= s.n; i += kWidth) {
      for (int64_t k = 0; k < kWidth; ++k) add(i, k);
    }
    for (int64_t k = 0; i + k < s.n; ++k) add(i, k);
  });
  NormTerms<double> out{0, 0};
  for (int64_t k = 0; k < kWidth; ++k) {
    out.first += first[k];
    out.second += second[k];
  }
  return out;
}
}  // namespace

template <class T>
void update_shard(std::string_view rule, const RuleSettings& settings, const RuleStep& step, const ShardSpans<T>& s,
                  const GradTransform<T>& a) {
  with_update_rule(rule, [&](auto r) {
    r.visit(settings, [&](auto element) {
      using Element = decltype(element);
      const auto scalars = Element::template scalars<T>(settings, step);
      run_parts<T>(s, a, run<Element, T>, &scalars, false);
    });
  });
}

template <class T>
ZeroGradientEffect zero_gradient_effect(std::string_view rule, const RuleSettings& settings, const RuleStep& step,
                                        const GradTransform<T>& a) {
  ZeroGradientEffect out = ZeroGradientEffect::moments;
  with_element(rule, settings, [&]<class Element>(Element) {
    if constexpr (kMaySkip<Element>) {
      const auto scalars = Element::template scalars<T>(settings, step);
      bool zero = true, same = step.decay == 0;
      for (const T p : {T(1), T(-0.7)}) {
        T state[3] = {};
        same &= step_from_zeros<Element>(scalars, p, transformed(a, T(0)), state) == p;
        for (const T x : state) zero &= std::bit_cast<Bits<T>>(x) == 0;
      }
      if (zero) out = same ? ZeroGradientEffect::stays : ZeroGradientEffect::weights;
    }
  });
  return out;
}

template <class T>
void update_shard_zero_grad(std::string_view rule, const RuleSettings& settings, const RuleStep& step,
                            const ShardSpans<T>& s, const GradTransform<T>& a) {
  with_element(rule, settings, [&]<class Element>(Element) {
    if constexpr (kMaySkip<Element>) {
      const auto scalars = Element::template scalars<T>(settings, step);
      // step_zero_grad() is used if it gives the same weight, because the compiler cannot derive that the quotient of
      // two zero moments adds nothing.
      if constexpr (kHasStepZeroGrad<Element>) {
        T state[3] = {};
        if (step_from_zeros<Element>(scalars, T(1), transformed(a, T(0)), state) ==
            Element::template step_zero_grad<T>(scalars, T(1)))
          return run_parts<T>(s, a, run_zero_gradient<Element, T>, &scalars, false);
      }
      run_parts<T>(s, a, run<Element, T>, &scalars, true);
    } else {
      bug(cat("update rule '", rule, "' leaves no element at rest"));
    }
  });
}
template ZeroGradientEffect zero_gradient_effect(std::string_view, const RuleSettings&, const RuleStep&,
                                                 const GradTransform<float>&);
template ZeroGradientEffect zero_gradient_effect(std::string_view, const RuleSettings&, const RuleStep&,
                                                 const GradTransform<double>&);
template void update_shard_zero_grad(std::string_view, const RuleSettings&, const RuleStep&, const ShardSpans<float>&,
                                     const GradTransform<float>&);
template void update_shard_zero_grad(std::string_view, const RuleSettings&, const RuleStep&, const ShardSpans<double>&,
                                     const GradTransform<double>&);

template <class T>
void look_ahead(T* weights, T* slow, int64_t n, T alpha) {
  simd_for<T>([&]() AMP_INLINE {
    T* __restrict p = weights;
    T* __restrict at = slow;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) p[i] = at[i] = at[i] + alpha * (p[i] - at[i]);
  });
}

template <class T>
void average(T* ema, const T* weights, int64_t n, T keep) {
  simd_for<T>([&]() AMP_INLINE {
    T* __restrict mean = ema;
    const T* __restrict p = weights;
    const T rest = 1 - keep;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) mean[i] = keep * mean[i] + rest * p[i];
  });
}
template void look_ahead(float*, float*, int64_t, float);
template void look_ahead(double*, double*, int64_t, double);
template void average(float*, const float*, int64_t, float);
template void average(double*, const double*, int64_t, double);

template <class T>
NormTerms<double> sum_norm_terms(std::string_view rule, const RuleSettings& settings, const RuleStep& step,
                                 const ShardSpans<T>& s, const GradTransform<T>& a) {
  NormTerms<double> out{0, 0};
  with_update_rule(rule, [&](auto r) {
    r.visit(settings, [&](auto element) {
      using Element = decltype(element);
      if constexpr (kNeedsNorms<Element>)
        out = sum_norm_terms<Element>(s, a, Element::template scalars<T>(settings, step));
    });
  });
  return out;
}

template NormTerms<double> sum_norm_terms(std::string_view, const RuleSettings&, const RuleStep&,
                                          const ShardSpans<float>&, const GradTransform<float>&);
template NormTerms<double> sum_norm_terms(std::string_view, const RuleSettings&, const RuleStep&,
                                          const ShardSpans<double>&, const GradTransform<double>&);
template ShardStats inspect(const float*, int64_t);
template ShardStats inspect(const double*, int64_t);
template void update_shard(std::string_view, const RuleSettings&, const RuleStep&, const ShardSpans<float>&,
                           const GradTransform<float>&);
template void update_shard(std::string_view, const RuleSettings&, const RuleStep&, const ShardSpans<double>&,
                           const GradTransform<double>&);

}  // namespace amp::kernel
