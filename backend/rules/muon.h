// Muon (Jordan et al. 2024, kellerjordan.github.io/posts/muon) as torch.optim.Muon, in the precision of the
// weights. The step of a matrix is its momentum, made nearly orthogonal,
//   m = momentum m + (1 - momentum) g,  x = momentum m + (1 - momentum) g,  x = x / |x|,
//   ns_steps times: A = x x^T, x = a x + (b A + c A A) x,
//   p = (1 - lr decay) p - lr ratio x,  ratio = sqrt(max(1, rows / columns)), or 0.2 sqrt(max(rows, columns))
// with match_rms_adamw (Liu et al. 2025, arXiv:2502.16982). Parameters that are not matrices, or are marked
// elementwise, use AdamW.
#pragma once

#include <algorithm>

#include "backend/rules/adam.h"
#include "backend/tensor_rule.h"

namespace amp {

template <class T>
struct MuonNorm {
  T norm;
};
template <class T>
struct MuonMove {
  T shrink, size;
};

struct Muon : TensorRule {
  static constexpr std::string_view name = "muon";
  static constexpr RuleKey keys[] = {{"momentum", &RuleSettings::momentum, 0.95, 0, 1},
                                     {"ns_steps", &RuleSettings::ns_steps, 5, 1, 99, {}, false, true, true},
                                     truth_key("match_rms_adamw", &RuleSettings::match_rms_adamw),
                                     kBeta1,
                                     kBeta2,
                                     kEps};

  static bool matrix(const TensorShape& shape) { return shape.dims.size() == 2 && !shape.elementwise; }
  static std::vector<TensorState> states(const RuleSettings&, const TensorShape& shape) {
    const int64_t n = shape.count();
    return {{"average", n}, {"square", matrix(shape) ? 0 : n}};
  }
  static int64_t scratch(const RuleSettings&, const TensorShape& shape) {
    if (!matrix(shape)) return 0;
    const int64_t k = std::min(shape.dims[0], shape.dims[1]);
    return scratch_part(shape.count()) + 2 * scratch_part(k * k);
  }
  static int64_t sums(const RuleSettings&, const TensorShape&) { return 1; }

  // Computes the zeroth power of the matrix in g by quintic Newton-Schulz iteration. The result is in g or in scratch.
  template <class T, class Worker>
  static T* orthogonal(const RuleSettings& s, const Worker& w, const TensorStep<T>& x) {
    constexpr double a = 3.4445, b = -4.7750, c = 2.0315;
    const int64_t rows = x.shape.dims[0], columns = x.shape.dims[1], k = std::min(rows, columns);
    T *now = x.g,
      *next = x.scratch, *const gram = x.scratch + scratch_part(x.n), *const sum = gram + scratch_part(k * k);
    double* const squares = x.sums;
    T* const g = x.g;
    w.sums(
        1, x.n, [=] ON_DEVICE(int64_t i) { return static_cast<double>(g[i]) * static_cast<double>(g[i]); }, squares);
    w.elements(
        x.n,
        [=] ON_DEVICE() {
          const double norm = sqrt(*squares);
          return MuonNorm<T>{static_cast<T>(norm > 1e-7 ? norm : 1e-7)};
        },
        [=] ON_DEVICE(const MuonNorm<T>& whole, int64_t i) { g[i] /= whole.norm; });
    // For a tall matrix, x (x^T x) has smaller products than the equal (x x^T) x.
    const bool tall = rows > columns;
    for (int i = 0; i < static_cast<int>(s.ns_steps); ++i) {
      w.product(tall, !tall, k, k, tall ? rows : columns, T(1), now, columns, now, columns, T(0), gram, k);
      w.copy(gram, sum, k * k);
      w.product(false, false, k, k, k, static_cast<T>(c), gram, k, gram, k, static_cast<T>(b), sum, k);
      w.copy(now, next, x.n);
      if (tall)
        w.product(false, false, rows, columns, k, T(1), now, columns, sum, k, static_cast<T>(a), next, columns);
      else
        w.product(false, false, rows, columns, k, T(1), sum, k, now, columns, static_cast<T>(a), next, columns);
      std::swap(now, next);
    }
    return now;
  }

  template <class T, class Worker>
  static void step(const RuleSettings& s, const Worker& w, const TensorStep<T>& x) {
    if (!matrix(x.shape)) {
      if (static_cast<float>(1 - s.beta1) < 0.5f)
        adamw<AdamElement<true, true, false>>(s, w, x);
      else
        adamw<AdamElement<true, false, false>>(s, w, x);
      return;
    }
    const T rest = static_cast<T>(1 - s.momentum), momentum = static_cast<T>(s.momentum);
    T *const p = x.p, *const g = x.g, *const average = x.s[0];
    w.elements(x.n, [=] ON_DEVICE(int64_t i) {
      T& m = average[i];
      m = rule_lerp(m, g[i], rest);
      g[i] = rule_lerp(g[i], m, momentum);
    });
    const T* const d = orthogonal(s, w, x);
    const auto rows = static_cast<double>(x.shape.dims[0]), columns = static_cast<double>(x.shape.dims[1]);
    const double ratio =
        s.match_rms_adamw != 0 ? 0.2 * std::sqrt(std::max(rows, columns)) : std::sqrt(std::max(1.0, rows / columns));
    const TensorTime* const now = x.now;
    w.elements(
        x.n,
        [=] ON_DEVICE() {
          return MuonMove<T>{static_cast<T>(1 - now->lr * now->decay), static_cast<T>(now->lr * ratio)};
        },
        [=] ON_DEVICE(const MuonMove<T>& k, int64_t i) { p[i] = p[i] * k.shrink - k.size * d[i]; });
  }

  template <class Element, class T, class Worker>
  static void adamw(const RuleSettings& s, const Worker& w, const TensorStep<T>& x) {
    const RuleSettings settings = s;
    T *const p = x.p, *const g = x.g, *const m = x.s[0], *const v = x.s[1];
    const TensorTime* const now = x.now;
    using Scalars = typename Element::template Scalars<T>;
    w.elements(
        x.n,
        [=] ON_DEVICE() {
          RuleStep step;
          step.lr = now->lr;
          step.decay = now->decay;
          Element::begin_step(settings, now->t, step.scalars);
          return Element::template scalars<T>(settings, step);
        },
        [=] ON_DEVICE(const Scalars& k, int64_t i) { p[i] = Element::template step<T>(k, p[i], g[i], m[i], v[i]); });
  }
};

}  // namespace amp
