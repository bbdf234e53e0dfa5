// Adafactor (Shazeer and Stern 2018, arXiv:1804.04235) as transformers.Adafactor: of a matrix's mean of squares only
// the means over rows and over columns are kept,
//   beta2 = 1 - t^decay_rate,  r, c = moving averages of mean(g^2 + eps1) over columns, over rows,
//   u = g / sqrt(r c / mean(r)),  u = u / max(1, rms(u) / clip_threshold),  p -= lr decay p + lr u,
// for the last two axes of a tensor; vectors keep the whole mean of squares. With beta1 > 0, u is averaged. lr is
// times rms(p) (at least eps2) with scale_parameter, and times min(1e-2, 1 / sqrt(t)) with relative_step (in the place
// of 1e-2: 1e-6 t with warmup_init). transformers' class has both on, its Trainer has both off.
#pragma once

#include "backend/tensor_rule.h"

namespace amp {

struct Adafactor : TensorRule {
  static constexpr std::string_view name = "adafactor";
  static constexpr RuleKey keys[] = {{"eps1", &RuleSettings::eps, 1e-30, 0, kNoLimit},
                                     {"eps2", &RuleSettings::eps2, 1e-3, 0, kNoLimit},
                                     {"clip_threshold", &RuleSettings::clip_threshold, 1, 1e-30, kNoLimit},
                                     {"decay_rate", &RuleSettings::decay_rate, -0.8, -1, 0},
                                     {"beta1", &RuleSettings::beta1, 0, 0, 1},
                                     truth_key("scale_parameter", &RuleSettings::scale_parameter),
                                     truth_key("relative_step", &RuleSettings::relative_step),
                                     truth_key("warmup_init", &RuleSettings::warmup_init)};

  static bool factored(const TensorShape& shape) { return shape.dims.size() >= 2; }
  static int64_t columns(const TensorShape& shape) { return std::max<int64_t>(shape.dims.back(), 1); }
  static int64_t rows(const TensorShape& shape) { return std::max<int64_t>(shape.dims[shape.dims.size() - 2], 1); }
  static std::vector<TensorState> states(const RuleSettings& s, const TensorShape& shape) {
    const int64_t n = shape.count();
    const bool f = factored(shape);
    return {{"row", f ? n / columns(shape) : 0},
            {"column", f ? n / rows(shape) : 0},
            {"square", f ? 0 : n},
            {"average", s.beta1 > 0 ? n : 0}};
  }
  static int64_t scratch(const RuleSettings&, const TensorShape& shape) {
    return factored(shape) ? shape.count() / columns(shape) + shape.count() / rows(shape) : 0;
  }

  static double rate(const RuleSettings& s, double lr, int64_t t, double rms) {
    double rate = lr;
    if (s.relative_step != 0) {
      const auto steps = static_cast<double>(t);
      rate *= std::min(s.warmup_init != 0 ? 1e-6 * steps : 1e-2, 1 / std::sqrt(steps));
    }
    return s.scale_parameter != 0 ? rate * std::max(s.eps2, rms) : rate;
  }

  // The gradient divided by the root of the factored mean of squares, in its place.
  template <class T>
  static void divide_factored(const TensorStep<T>& x, T eps, T beta2) {
    const int64_t c = columns(x.shape), r = rows(x.shape), all = x.n / c, matrices = all / r;
    T *const row = x.s[0], *const column = x.s[1], *const by_row = x.scratch, *const by_column = x.scratch + all;
    for_units(all, c, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T* const g = x.g + i * c;
        const double sum = lane_sum(0, c, [&](int64_t j) { return g[j] * g[j] + eps; });
        row[i] = row[i] * beta2 + (1 - beta2) * static_cast<T>(sum / static_cast<double>(c));
      }
    });
    constexpr int64_t kBlock = 64;  // columns
    const int64_t blocks = (c + kBlock - 1) / kBlock;
    for_units(matrices * blocks, r * kBlock, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        const int64_t m = k / blocks, from = k % blocks * kBlock, count = std::min(kBlock, c - from);
        double sums[kBlock] = {};
        for (int64_t i = 0; i < r; ++i) {
          const T* const g = x.g + (m * r + i) * c + from;
          for (int64_t j = 0; j < count; ++j) sums[j] += static_cast<double>(g[j] * g[j] + eps);
        }
        for (int64_t j = 0; j < count; ++j) {
          T& v = column[m * c + from + j];
          v = v * beta2 + (1 - beta2) * static_cast<T>(sums[j] / static_cast<double>(r));
          by_column[m * c + from + j] = 1 / std::sqrt(v);
        }
      }
    });
    for_units(matrices, r, [&](int64_t begin, int64_t end) {
      for (int64_t m = begin; m < end; ++m) {
        const double sum = lane_sum(m * r, (m + 1) * r, [&](int64_t i) { return row[i]; });
        const T mean = static_cast<T>(sum / static_cast<double>(r));
        for (int64_t i = m * r; i < (m + 1) * r; ++i) by_row[i] = 1 / std::sqrt(row[i] / mean);
      }
    });
    for_units(all, c, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        T* const g = x.g + i * c;
        const T* const f = by_column + i / r * c;
        for (int64_t j = 0; j < c; ++j) g[j] *= by_row[i] * f[j];
      }
    });
  }

  template <class T>
  static void move(const RuleSettings& s, const RuleStep& step, const TensorStep<T>& x) {
    const auto n = static_cast<double>(x.n);
    const double lr = rate(
        s, step.lr, x.t,
        std::sqrt(
            tensor_sum(x.n, [&](int64_t i) { return static_cast<double>(x.p[i]) * static_cast<double>(x.p[i]); }) / n));
    const T beta2 = static_cast<T>(1 - std::pow(static_cast<double>(x.t), s.decay_rate)), eps = static_cast<T>(s.eps);
    if (factored(x.shape)) {
      divide_factored(x, eps, beta2);
    } else {
      for_elements(x.n, [&](int64_t i) {
        T& v = x.s[2][i];
        v = v * beta2 + (1 - beta2) * (x.g[i] * x.g[i] + eps);
        x.g[i] *= 1 / std::sqrt(v);
      });
    }
    const double rms = std::sqrt(
        tensor_sum(x.n, [&](int64_t i) { return static_cast<double>(x.g[i]) * static_cast<double>(x.g[i]); }) / n);
    const T over = static_cast<T>(std::max(1.0, rms / s.clip_threshold)), size = static_cast<T>(lr);
    const T shrink = static_cast<T>(step.decay * lr), beta1 = static_cast<T>(s.beta1);
    T* const average = s.beta1 > 0 ? x.s[3] : nullptr;
    for_elements(x.n, [&](int64_t i) {
      T u = x.g[i] / over * size;
      if (average) u = average[i] = average[i] * beta1 + (1 - beta1) * u;
      x.p[i] = x.p[i] - shrink * x.p[i] - u;
    });
  }
};

}  // namespace amp
