#include "backend/cpu/update_loops.h"

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
constexpr int kLanes = 4;  // of one vector (32 bytes of double, native from AVX2 on); four vectors are in flight

template <class T>
struct Vec {
  typedef T type __attribute__((vector_size(kLanes * sizeof(T))));
};
template <class T>
using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

// Positive floats compare like their bits, so one integer maximum of the magnitude is both the inf-norm and the finite
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
  simd([&]() AMP_INLINE {
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
template <class Element, bool Ema, class T>
void run(const ShardSpans<T>& s, const GradTransform<T>& a, const typename Element::template Scalars<T>& scalars) {
  simd([&]() AMP_INLINE {
    T* __restrict p = s.p;
    const T* __restrict grad = s.g;
    T* __restrict m = s.m;
    T* __restrict v = s.v;
    T* __restrict u = s.u;
    T* __restrict ema = s.ema;
    const T* __restrict h = s.h;
    const GradTransform<T> transform = a;
    const T keep = a.keep, rest = 1 - a.keep;
    const auto c = scalars;
    const int64_t n = s.n;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const T g = transformed(transform, grad[i]);
      T none = 0, x;
      if constexpr (kCurved<Element>)
        x = Element::template move<T>(c, p[i], g, m[i], v[i], h[i]);
      else if constexpr (Element::moments == 0)
        x = Element::template move<T>(c, p[i], g, none, none);
      else if constexpr (Element::moments == 1)
        x = Element::template move<T>(c, p[i], g, m[i], none);
      else if constexpr (Element::moments == 2)
        x = Element::template move<T>(c, p[i], g, m[i], v[i]);
      else
        x = Element::template move<T>(c, p[i], g, m[i], v[i], u[i]);
      p[i] = x;
      if constexpr (Ema) ema[i] = keep * ema[i] + rest * x;
    }
  });
}

template <class Element>
constexpr bool kMayRest = !kCurved<Element> && !kMeasures<Element>;  // they look at more than the element

// A new weight of an element without a gradient; the moments, zeros, as they are after it.
template <class Element, class T>
AMP_INLINE inline T rested(const typename Element::template Scalars<T>& c, T p, T g, T (&state)[3]) {
  if constexpr (Element::moments < 3)
    return Element::template move<T>(c, p, g, state[0], state[1]);
  else
    return Element::template move<T>(c, p, g, state[0], state[1], state[2]);
}

template <class Element>
constexpr bool kRests = requires(typename Element::template Scalars<float> c) {
  Element::template rest<float>(c, 1.0f);
};

// Short: by the rule's rest(). The compiler could not know that the quotient of two moments adds nothing.
template <class Element, bool Ema, bool Short, class T>
void run_at_rest(const ShardSpans<T>& s, const GradTransform<T>& a,
                 const typename Element::template Scalars<T>& scalars) {
  simd([&]() AMP_INLINE {
    T* __restrict p = s.p;
    T* __restrict ema = s.ema;
    const T keep = a.keep, rest = 1 - a.keep, g = transformed(a, T(0));
    const auto c = scalars;
    const int64_t n = s.n;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      T state[3] = {}, x;
      if constexpr (Short)
        x = Element::template rest<T>(c, p[i]);
      else
        x = rested<Element>(c, p[i], g, state);
      p[i] = x;
      if constexpr (Ema) ema[i] = keep * ema[i] + rest * x;
    }
  });
}

// Squares are added in sixteen lanes, in double: the same bits on every instruction set.
template <class Element, class T>
RuleTerms<double> sum(const ShardSpans<T>& s, const GradTransform<T>& a,
                      const typename Element::template Scalars<T>& scalars) {
  constexpr int64_t kWidth = 16;
  double first[kWidth] = {}, second[kWidth] = {};
  simd([&]() AMP_INLINE {
    const GradTransform<T> transform = a;
    const auto c = scalars;
    const auto add = [&](int64_t i, int64_t k) AMP_INLINE {
      const T m = Element::moments > 0 ? s.m[i + k] : T(0), v = Element::moments > 1 ? s.v[i + k] : T(0);
      const RuleTerms<T> terms = Element::template measure<T>(c, s.p[i + k], transformed(transform, s.g[i + k]), m, v);
      first[k] += static_cast<double>(terms.first) * static_cast<double>(terms.first);
      second[k] += static_cast<double>(terms.second) * static_cast<double>(terms.second);
    };
    int64_t i = 0;
    for (; i + kWidth <= s.n; i += kWidth) {
      for (int64_t k = 0; k < kWidth; ++k) add(i, k);
    }
    for (int64_t k = 0; i + k < s.n; ++k) add(i, k);
  });
  RuleTerms<double> out{0, 0};
  for (int64_t k = 0; k < kWidth; ++k) {
    out.first += first[k];
    out.second += second[k];
  }
  return out;
}
}  // namespace

template <class T>
void move(std::string_view rule, const RuleSettings& settings, const RuleStep& step, const ShardSpans<T>& s,
          const GradTransform<T>& a) {
  with_update_rule(rule, [&](auto r) {
    r.visit(settings, [&](auto element) {
      using Element = decltype(element);
      const auto scalars = Element::template scalars<T>(settings, step);
      s.ema ? run<Element, true>(s, a, scalars) : run<Element, false>(s, a, scalars);
    });
  });
}

template <class T>
AtRest at_rest(std::string_view rule, const RuleSettings& settings, const RuleStep& step, const GradTransform<T>& a) {
  AtRest out = AtRest::moments;
  with_element(rule, settings, [&]<class Element>(Element) {
    if constexpr (kMayRest<Element>) {
      const auto scalars = Element::template scalars<T>(settings, step);
      bool zero = true, same = step.decay == 0;
      for (const T p : {T(1), T(-0.7)}) {
        T state[3] = {};
        same &= rested<Element>(scalars, p, transformed(a, T(0)), state) == p;
        for (const T x : state) zero &= std::bit_cast<Bits<T>>(x) == 0;
      }
      if (zero) out = same ? AtRest::stays : AtRest::weights;
    }
  });
  return out;
}

template <class T>
void move_at_rest(std::string_view rule, const RuleSettings& settings, const RuleStep& step, const ShardSpans<T>& s,
                  const GradTransform<T>& a) {
  with_element(rule, settings, [&]<class Element>(Element) {
    if constexpr (kMayRest<Element>) {
      const auto scalars = Element::template scalars<T>(settings, step);
      if constexpr (kRests<Element>) {
        T state[3] = {};
        if (rested<Element>(scalars, T(1), transformed(a, T(0)), state) == Element::template rest<T>(scalars, T(1)))
          return s.ema ? run_at_rest<Element, true, true>(s, a, scalars)
                       : run_at_rest<Element, false, true>(s, a, scalars);
      }
      s.ema ? run_at_rest<Element, true, false>(s, a, scalars) : run_at_rest<Element, false, false>(s, a, scalars);
    } else {
      bug(cat("update rule '", rule, "' leaves no element at rest"));
    }
  });
}
template AtRest at_rest(std::string_view, const RuleSettings&, const RuleStep&, const GradTransform<float>&);
template AtRest at_rest(std::string_view, const RuleSettings&, const RuleStep&, const GradTransform<double>&);
template void move_at_rest(std::string_view, const RuleSettings&, const RuleStep&, const ShardSpans<float>&,
                           const GradTransform<float>&);
template void move_at_rest(std::string_view, const RuleSettings&, const RuleStep&, const ShardSpans<double>&,
                           const GradTransform<double>&);

template <class T>
void look_ahead(T* weights, T* slow, int64_t n, T alpha) {
  simd([&]() AMP_INLINE {
    T* __restrict p = weights;
    T* __restrict at = slow;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) p[i] = at[i] = at[i] + alpha * (p[i] - at[i]);
  });
}

template <class T>
void average(T* ema, const T* weights, int64_t n, T keep) {
  simd([&]() AMP_INLINE {
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
RuleTerms<double> measure(std::string_view rule, const RuleSettings& settings, const RuleStep& step,
                          const ShardSpans<T>& s, const GradTransform<T>& a) {
  RuleTerms<double> out{0, 0};
  with_update_rule(rule, [&](auto r) {
    r.visit(settings, [&](auto element) {
      using Element = decltype(element);
      if constexpr (kMeasures<Element>) out = sum<Element>(s, a, Element::template scalars<T>(settings, step));
    });
  });
  return out;
}

template RuleTerms<double> measure(std::string_view, const RuleSettings&, const RuleStep&, const ShardSpans<float>&,
                                   const GradTransform<float>&);
template RuleTerms<double> measure(std::string_view, const RuleSettings&, const RuleStep&, const ShardSpans<double>&,
                                   const GradTransform<double>&);
template ShardStats inspect(const float*, int64_t);
template ShardStats inspect(const double*, int64_t);
template void move(std::string_view, const RuleSettings&, const RuleStep&, const ShardSpans<float>&,
                   const GradTransform<float>&);
template void move(std::string_view, const RuleSettings&, const RuleStep&, const ShardSpans<double>&,
                   const GradTransform<double>&);

}  // namespace amp::kernel
