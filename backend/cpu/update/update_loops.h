// Loops of the optimizer over one shard (a range of the elements of one tensor), compiled for each instruction set.
#pragma once

#include <cstdint>

#include "backend/update_rule.h"

namespace amp::kernel {

struct ShardStats {
  bool found_inf = false;
  double sum_squares = 0;  // sum of the squares of the elements before unscaling
  double max_abs = 0;      // undefined if found_inf
};

// Returns the statistics of n gradients. The order of additions is fixed (16 accumulators), so the sum has the same
// bits on every instruction set.
template <class T>
ShardStats inspect(const T* g, int64_t n);

template <class T>
struct ShardSpans {
  T* p;
  const T* g;
  T* m;        // first moment; null: not kept
  T* v;        // second moment; null: not kept
  T* u;        // third moment; null: not kept
  T* ema;      // average of the weights; null: not kept
  const T* h;  // null: the rule needs no estimate of the Hessian's diagonal
  int64_t n;

  ShardSpans part(int64_t begin, int64_t count) const {
    const auto at = [&](auto* x) { return x ? x + begin : x; };
    return {at(p), at(g), at(m), at(v), at(u), at(ema), at(h), count};
  }
};

// Scalars of a shard: how its gradients are transformed before the rule is applied, and the decay of the weights'
// average, which is updated afterwards.
template <class T>
struct GradTransform {
  T inv;    // 1 / loss scale
  T clip;   // coefficient of norm clipping, 1 for none
  T limit;  // value clipping, infinity for none
  T keep;   // decay of the average
};

template <class T>
AMP_INLINE inline T transformed(const GradTransform<T>& a, T g) {
  g = g * a.inv * a.clip;
  g = g > a.limit ? a.limit : g;
  return g < -a.limit ? -a.limit : g;
}

// Updates a shard with a rule of backend/update_rules.h.
template <class T>
void update_shard(std::string_view rule, const RuleSettings& settings, const RuleStep& step, const ShardSpans<T>& s,
                  const GradTransform<T>& a);

// Effect of a rule on elements with zero gradients and moments. stays: no effect; weights: only weights and their
// average change; moments: moments change too.
enum class ZeroGradientEffect : uint8_t { stays, weights, moments };
template <class T>
ZeroGradientEffect zero_gradient_effect(std::string_view rule, const RuleSettings& settings, const RuleStep& step,
                                        const GradTransform<T>& a);
// Updates a shard of elements with zero gradients and moments, with a rule whose effect is `weights`. Accesses only p
// and ema.
template <class T>
void update_shard_zero_grad(std::string_view rule, const RuleSettings& settings, const RuleStep& step,
                            const ShardSpans<T>& s, const GradTransform<T>& a);

// Lookahead: moves the slow weights by alpha towards the weights, and sets the weights to the slow weights.
template <class T>
void look_ahead(T* p, T* slow, int64_t n, T alpha);

template <class T>
void average(T* ema, const T* p, int64_t n, T keep);

// Returns the sums of squares, over a shard, of the terms whose norms the rule needs. The rule's scalars are computed
// with norms of 0.
template <class T>
NormTerms<double> sum_norm_terms(std::string_view rule, const RuleSettings& settings, const RuleStep& step,
                                 const ShardSpans<T>& s, const GradTransform<T>& a);

}  // namespace amp::kernel
