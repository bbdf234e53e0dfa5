#include "trainer/optimizer_kernels.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

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
// Runs p' = rule(p, g, i) over the shard with the gradient prepared and the EMA following.
template <bool Ema, class T, class Rule>
void run(const ShardSpans<T>& s, const Around<T>& a, Rule rule) {
  simd([&]() AMP_INLINE {
    T* __restrict p = s.p;
    const T* __restrict grad = s.g;
    T* __restrict m = s.m;
    T* __restrict v = s.v;
    T* __restrict ema = s.ema;
    const T inv = a.inv, clip = a.clip, limit = a.limit, keep = a.ema_decay, rest = 1 - a.ema_decay;
    const Rule r = rule;
    const int64_t n = s.n;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      T g = grad[i] * inv * clip;
      g = g > limit ? limit : g;
      g = g < -limit ? -limit : g;
      const T x = r(p[i], g, m, v, i);
      p[i] = x;
      if constexpr (Ema) ema[i] = keep * ema[i] + rest * x;
    }
  });
}

template <class T, class Rule>
void run(const ShardSpans<T>& s, const Around<T>& a, Rule rule) {
  s.ema ? run<true>(s, a, rule) : run<false>(s, a, rule);
}

template <class T, bool Momentum, bool Nesterov>
struct SgdRule {
  SgdScalars<T> c;
  AMP_INLINE T operator()(T p, T g, T* __restrict m, T*, int64_t i) const {
    T none = 0;
    return sgd_element<Momentum, Nesterov>(c, p, g, Momentum ? m[i] : none);
  }
};

template <class T, bool NearZero>
struct AdamRule {
  AdamScalars<T> c;
  AMP_INLINE T operator()(T p, T g, T* __restrict m, T* __restrict v, int64_t i) const {
    return adam_element<NearZero>(c, p, g, m[i], v[i]);
  }
};
}  // namespace

template <class T>
void sgd(const ShardSpans<T>& s, const Around<T>& a, const SgdScalars<T>& c) {
  if (!s.m) return run(s, a, SgdRule<T, false, false>{c});
  c.nesterov ? run(s, a, SgdRule<T, true, true>{c}) : run(s, a, SgdRule<T, true, false>{c});
}

template <class T>
void adam(const ShardSpans<T>& s, const Around<T>& a, const AdamScalars<T>& c) {
  c.beta1_weight < T(0.5) ? run(s, a, AdamRule<T, true>{c}) : run(s, a, AdamRule<T, false>{c});
}

template ShardStats inspect(const float*, int64_t);
template ShardStats inspect(const double*, int64_t);
template void sgd(const ShardSpans<float>&, const Around<float>&, const SgdScalars<float>&);
template void sgd(const ShardSpans<double>&, const Around<double>&, const SgdScalars<double>&);
template void adam(const ShardSpans<float>&, const Around<float>&, const AdamScalars<float>&);
template void adam(const ShardSpans<double>&, const Around<double>&, const AdamScalars<double>&);

}  // namespace amp::kernel
