// AdamP and SGDP (Heo et al. 2021, arXiv:2006.08217) as timm's: the step loses its part along the weights where these
// look as if only their direction counted (before a norm): where the gradient is nearly at a right angle to them,
//   max over outputs of |cos(g, p)| < delta / sqrt(inputs)  (or the same of the whole tensor),
// and decays by wd_ratio of the decay there. SGDP's decay is divided by 1 - momentum.
#pragma once

#include "backend/tensor_rule.h"

namespace amp {

constexpr RuleKey kDelta{"delta", &RuleSettings::delta, 0.1, 0, kNoLimit};
constexpr RuleKey kDecayRatio{"wd_ratio", &RuleSettings::wd_ratio, 0.1, 0, kNoLimit};

// Sums over each of the rows that [0, n) consists of.
template <class F>
std::vector<double> row_sums(int64_t rows, int64_t each, F&& f) {
  if (rows == 1) return {tensor_sum(each, f)};
  std::vector<double> sums(static_cast<size_t>(rows));
  for_units(rows, each, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) sums[static_cast<size_t>(r)] = lane_sum(r * each, (r + 1) * each, f);
  });
  return sums;
}

// Takes the part along the weights out of the step d, where the gradient says so; what the decay is multiplied by.
template <class T>
double project(const RuleSettings& s, const TensorStep<T>& x, T* d) {
  const auto dot = [](const T* a, const T* b) {
    return [a, b](int64_t i) { return static_cast<double>(a[i]) * static_cast<double>(b[i]); };
  };
  for (const int64_t rows : {x.shape.dims[0], int64_t{1}}) {
    const int64_t each = rows > 0 ? x.n / rows : 0;
    const std::vector<double> gg = row_sums(rows, each, dot(x.g, x.g)), pp = row_sums(rows, each, dot(x.p, x.p)),
                              gp = row_sums(rows, each, dot(x.g, x.p));
    double most = 0;
    for (size_t r = 0; r < gp.size(); ++r) {
      const double norms = std::max(std::sqrt(gg[r]), s.eps) * std::max(std::sqrt(pp[r]), s.eps);
      most = std::max(most, std::abs(gp[r]) / norms);
    }
    if (!(most < s.delta / std::sqrt(static_cast<double>(each)))) continue;
    const std::vector<double> pd = row_sums(rows, each, dot(x.p, d));
    for_elements(x.n, [&](int64_t i) {
      const auto r = static_cast<size_t>(i / each);
      const double norm = std::sqrt(pp[r]) + s.eps;
      d[i] -= static_cast<T>(static_cast<double>(x.p[i]) / norm * (pd[r] / norm));
    });
    return s.wd_ratio;
  }
  return 1;
}

struct AdamP : TensorRule {
  static constexpr std::string_view name = "adamp";
  static constexpr RuleKey keys[] = {kBeta1, kBeta2, kEps, kDelta, kDecayRatio};
  static std::vector<TensorState> states(const RuleSettings&, const TensorShape& shape) {
    return {{"average", shape.count()}, {"square", shape.count()}};
  }
  static int64_t scratch(const RuleSettings&, const TensorShape& shape) { return shape.count(); }

  template <class T>
  static void move(const RuleSettings& s, const RuleStep& step, const TensorStep<T>& x) {
    const auto t = static_cast<double>(x.t);
    const T beta1 = static_cast<T>(s.beta1), beta2 = static_cast<T>(s.beta2), rest1 = static_cast<T>(1 - s.beta1),
            rest2 = static_cast<T>(1 - s.beta2), bias2 = static_cast<T>(std::sqrt(1 - std::pow(s.beta2, t))),
            eps = static_cast<T>(s.eps);
    T *const d = x.scratch, *const m = x.s[0], *const v = x.s[1];
    for_elements(x.n, [&](int64_t i) {
      const T g = x.g[i];
      m[i] = m[i] * beta1 + rest1 * g;
      v[i] = v[i] * beta2 + rest2 * g * g;
      const T root = std::sqrt(v[i]) / bias2 + eps;
      d[i] = (s.nesterov ? beta1 * m[i] + rest1 * g : m[i]) / root;
    });
    const double ratio = x.shape.dims.size() > 1 ? project(s, x, d) : 1;
    const T shrink = static_cast<T>(1 - step.lr * step.decay * ratio),
            size = static_cast<T>(step.lr / (1 - std::pow(s.beta1, t)));
    for_elements(x.n, [&](int64_t i) { x.p[i] = x.p[i] * shrink - size * d[i]; });
  }
};

struct SgdP : TensorRule {
  static constexpr std::string_view name = "sgdp";
  static constexpr RuleKey keys[] = {
      kMomentum, {"dampening", &RuleSettings::dampening, 0, 0, 1}, kEps, kDelta, kDecayRatio};
  static std::vector<TensorState> states(const RuleSettings&, const TensorShape& shape) {
    return {{"momentum", shape.count()}};
  }
  static int64_t scratch(const RuleSettings&, const TensorShape& shape) { return shape.count(); }

  template <class T>
  static void move(const RuleSettings& s, const RuleStep& step, const TensorStep<T>& x) {
    const T momentum = static_cast<T>(s.momentum), rest = static_cast<T>(1 - s.dampening);
    T *const d = x.scratch, *const m = x.s[0];
    for_elements(x.n, [&](int64_t i) {
      m[i] = m[i] * momentum + rest * x.g[i];
      d[i] = s.nesterov ? x.g[i] + momentum * m[i] : m[i];
    });
    const double ratio = x.shape.dims.size() > 1 ? project(s, x, d) : 1;
    const T shrink = static_cast<T>(1 - step.lr * step.decay * ratio / (1 - s.momentum)),
            size = static_cast<T>(step.lr);
    for_elements(x.n, [&](int64_t i) { x.p[i] = x.p[i] * shrink - size * d[i]; });
  }
};

}  // namespace amp
