// Muon (Jordan et al. 2024, kellerjordan.github.io/posts/muon) as torch.optim.Muon, in the precision of the weights:
// a matrix moves by its momentum made nearly orthogonal,
//   m = momentum m + (1 - momentum) g,  x = momentum m + (1 - momentum) g,  x = x / |x|,
//   ns_steps times: A = x x^T, x = a x + (b A + c A A) x,
//   p = (1 - lr decay) p - lr ratio x,  ratio = sqrt(max(1, rows / columns)), or 0.2 sqrt(max(rows, columns))
// with match_rms_adamw (Liu et al. 2025, arXiv:2502.16982). What is no matrix, or asked to, moves by AdamW.
#pragma once

#include "backend/cpu/gemm.h"
#include "backend/rules/adam.h"
#include "backend/tensor_rule.h"

namespace amp {

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
    return shape.count() + 2 * k * k;
  }

  // The zeroth power of the matrix in g, by the quintic Newton-Schulz iteration; in g or in scratch.
  template <class T>
  static T* orthogonal(const RuleSettings& s, const TensorStep<T>& x) {
    constexpr double a = 3.4445, b = -4.7750, c = 2.0315, eps = 1e-7;
    const int64_t r = x.shape.dims[0], w = x.shape.dims[1], k = std::min(r, w);
    T *now = x.g, *next = x.scratch, *const gram = x.scratch + x.n, *const sum = gram + k * k;
    const double norm = std::sqrt(
        tensor_sum(x.n, [&](int64_t i) { return static_cast<double>(now[i]) * static_cast<double>(now[i]); }));
    const T whole = static_cast<T>(std::max(norm, eps));
    for_elements(x.n, [&](int64_t i) { now[i] /= whole; });
    const bool tall = r > w;  // then x^T x, from the right: the same
    for (int i = 0; i < static_cast<int>(s.ns_steps); ++i) {
      cpu::parallel_gemm<T>(tall, !tall, k, k, tall ? r : w, 1, now, w, now, w, 0, gram, k);
      std::copy_n(gram, k * k, sum);
      cpu::parallel_gemm<T>(false, false, k, k, k, static_cast<T>(c), gram, k, gram, k, static_cast<T>(b), sum, k);
      std::copy_n(now, x.n, next);
      if (tall)
        cpu::parallel_gemm<T>(false, false, r, w, k, 1, now, w, sum, k, static_cast<T>(a), next, w);
      else
        cpu::parallel_gemm<T>(false, false, r, w, k, 1, sum, k, now, w, static_cast<T>(a), next, w);
      std::swap(now, next);
    }
    return now;
  }

  template <class T>
  static void move(const RuleSettings& s, const RuleStep& step, const TensorStep<T>& x) {
    if (!matrix(x.shape)) {
      adamw(s, step, x);
      return;
    }
    const T rest = static_cast<T>(1 - s.momentum), momentum = static_cast<T>(s.momentum);
    for_elements(x.n, [&](int64_t i) {
      T& m = x.s[0][i];
      m = rule_lerp(m, x.g[i], rest);
      x.g[i] = rule_lerp(x.g[i], m, momentum);
    });
    const T* const d = orthogonal(s, x);
    const auto rows = static_cast<double>(x.shape.dims[0]), columns = static_cast<double>(x.shape.dims[1]);
    const double ratio =
        s.match_rms_adamw != 0 ? 0.2 * std::sqrt(std::max(rows, columns)) : std::sqrt(std::max(1.0, rows / columns));
    const T shrink = static_cast<T>(1 - step.lr * step.decay), size = static_cast<T>(step.lr * ratio);
    for_elements(x.n, [&](int64_t i) { x.p[i] = x.p[i] * shrink - size * d[i]; });
  }

  template <class T>
  static void adamw(const RuleSettings& s, const RuleStep& step, const TensorStep<T>& x) {
    AdamW::visit(s, [&]<class Element>(Element) {
      if constexpr (Element::moments == 2) {
        RuleStep here = step;
        Element::once(s, x.t, here.facts);
        const auto c = Element::template scalars<T>(s, here);
        for_elements(x.n,
                     [&](int64_t i) { x.p[i] = Element::template move<T>(c, x.p[i], x.g[i], x.s[0][i], x.s[1][i]); });
      }
    });
  }
};

}  // namespace amp
