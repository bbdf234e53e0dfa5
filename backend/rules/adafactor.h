// Adafactor (Shazeer and Stern 2018, arXiv:1804.04235) as transformers.Adafactor. For a matrix, only the means of
// the squared gradient over rows and over columns are kept,
//   beta2 = 1 - t^decay_rate,  r, c = moving averages of mean(g^2 + eps1) over columns, over rows,
//   u = g / sqrt(r c / mean(r)),  u = u / max(1, rms(u) / clip_threshold),  p -= lr decay p + lr u,
// for the last two axes of a tensor; vectors keep the whole mean of squares. With beta1 > 0, u is averaged. With
// scale_parameter, lr is multiplied by rms(p) (at least eps2). With relative_step, it is multiplied by min(1e-2, 1
// / sqrt(t)), or by min(1e-6 t, 1 / sqrt(t)) with warmup_init. Both are on by default in transformers' class and
// off in its Trainer.
#pragma once

#include "backend/tensor_rule.h"

namespace amp {

template <class T>
struct AdafactorDecay {
  T beta2;
};
template <class T>
struct AdafactorMove {
  T over, size, shrink;
};

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
  static int64_t sums(const RuleSettings&, const TensorShape& shape) {
    return 2 + (factored(shape) ? 2 * (shape.count() / columns(shape)) + shape.count() / rows(shape) : 0);
  }

  HD static double rate(const RuleSettings& s, const TensorTime& now, double rms) {
    double rate = now.lr;
    if (s.relative_step != 0) {
      const auto steps = static_cast<double>(now.t);
      const double first = s.warmup_init != 0 ? 1e-6 * steps : 1e-2, later = 1 / sqrt(steps);
      rate *= first < later ? first : later;
    }
    return s.scale_parameter != 0 ? rate * (s.eps2 > rms ? s.eps2 : rms) : rate;
  }

  // Divides the gradient in place by the root of the factored mean of squares.
  template <class T, class Worker>
  static void divide_factored(const RuleSettings& s, const Worker& w, const TensorStep<T>& x, double* sums) {
    const int64_t c = columns(x.shape), r = rows(x.shape), all = x.n / c, matrices = all / r;
    T *const g = x.g, *const row = x.s[0], *const column = x.s[1], *const by_row = x.scratch,
             *const by_column = by_row + all;
    double *const row_sums = sums, *const mean = row_sums + all, *const column_sums = mean + all;
    const T eps = static_cast<T>(s.eps);
    const double decay_rate = s.decay_rate;
    const TensorTime* const now = x.now;
    const auto square = [=] ON_DEVICE(int64_t i) { return static_cast<double>(g[i] * g[i] + eps); };
    const auto beta2 = [=] ON_DEVICE() {
      return AdafactorDecay<T>{static_cast<T>(1 - pow(static_cast<double>(now->t), decay_rate))};
    };
    w.sums(all, c, square, row_sums);
    w.elements(all, beta2, [=] ON_DEVICE(const AdafactorDecay<T>& k, int64_t i) {
      row[i] = row[i] * k.beta2 + (1 - k.beta2) * static_cast<T>(row_sums[i] / static_cast<double>(c));
    });
    w.column_sums(matrices, r, c, square, column_sums);
    w.elements(matrices * c, beta2, [=] ON_DEVICE(const AdafactorDecay<T>& k, int64_t i) {
      column[i] = column[i] * k.beta2 + (1 - k.beta2) * static_cast<T>(column_sums[i] / static_cast<double>(r));
      by_column[i] = 1 / sqrt(column[i]);
    });
    w.sums(
        matrices, r, [=] ON_DEVICE(int64_t i) { return static_cast<double>(row[i]); }, mean);
    w.elements(all, [=] ON_DEVICE(int64_t i) {
      by_row[i] = 1 / sqrt(row[i] / static_cast<T>(mean[i / r] / static_cast<double>(r)));
    });
    w.matrix(all, c, [=] ON_DEVICE(int64_t i, int64_t j) { g[i * c + j] *= by_row[i] * by_column[i / r * c + j]; });
  }

  template <class T, class Worker>
  static void step(const RuleSettings& s, const Worker& w, const TensorStep<T>& x) {
    T *const p = x.p, *const g = x.g, *const average = s.beta1 > 0 ? x.s[3] : nullptr;
    double *const weights = x.sums, *const update = x.sums + 1;
    const TensorTime* const now = x.now;
    const double n = static_cast<double>(x.n), threshold = s.clip_threshold, decay_rate = s.decay_rate;
    const T beta1 = static_cast<T>(s.beta1), eps = static_cast<T>(s.eps);
    if (s.scale_parameter != 0)
      w.sums(
          1, x.n, [=] ON_DEVICE(int64_t i) { return static_cast<double>(p[i]) * static_cast<double>(p[i]); }, weights);
    if (factored(x.shape)) {
      divide_factored(s, w, x, x.sums + 2);
    } else {
      T* const square = x.s[2];
      w.elements(
          x.n,
          [=] ON_DEVICE() {
            return AdafactorDecay<T>{static_cast<T>(1 - pow(static_cast<double>(now->t), decay_rate))};
          },
          [=] ON_DEVICE(const AdafactorDecay<T>& k, int64_t i) {
            T& v = square[i];
            v = v * k.beta2 + (1 - k.beta2) * (g[i] * g[i] + eps);
            g[i] *= 1 / sqrt(v);
          });
    }
    w.sums(
        1, x.n, [=] ON_DEVICE(int64_t i) { return static_cast<double>(g[i]) * static_cast<double>(g[i]); }, update);
    const RuleSettings settings = s;
    w.elements(
        x.n,
        [=] ON_DEVICE() {
          const double rms = sqrt(*update / n), lr = rate(settings, *now, sqrt(*weights / n));
          const double over = rms / threshold;
          return AdafactorMove<T>{static_cast<T>(over > 1 ? over : 1.0), static_cast<T>(lr),
                                  static_cast<T>(now->decay * lr)};
        },
        [=] ON_DEVICE(const AdafactorMove<T>& k, int64_t i) {
          T u = g[i] / k.over * k.size;
          if (average) u = average[i] = average[i] * beta1 + (1 - beta1) * u;
          p[i] = p[i] - k.shrink * p[i] - u;
        });
  }
};

}  // namespace amp
