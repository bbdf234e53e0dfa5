// AdamP and SGDP (Heo et al. 2021, arXiv:2006.08217) as in timm. The step is projected: its component along the
// weights is removed if the weights seem to be scale-invariant (before a norm), that is if the gradient is nearly
// orthogonal to them,
//   max over outputs of |cos(g, p)| < delta / sqrt(inputs)  (or the same of the whole tensor),
// and the decay is multiplied by wd_ratio in this case. SGDP's decay is divided by 1 - momentum.
#pragma once

#include "backend/tensor_rule.h"

namespace amp {

constexpr RuleKey kDelta{"delta", &RuleSettings::delta, 0.1, 0, kNoLimit};
constexpr RuleKey kDecayRatio{"wd_ratio", &RuleSettings::wd_ratio, 0.1, 0, kNoLimit};

template <class T>
struct ProjectedMove {
  T shrink, size;
};

// Removes the component along the weights from the step d if the gradient is nearly orthogonal to them. *ratio
// becomes the factor of the decay. x.sums holds, from its fifth element on, four sums per row and then four of the
// tensor.
struct Projection {
  static int64_t sums(const TensorShape& shape) { return 4 + 4 * (shape.dims.size() > 1 ? shape.dims[0] + 1 : 0); }

  template <class T, class Worker>
  static void apply(const RuleSettings& s, const Worker& w, const TensorStep<T>& x, T* d, double* ratio) {
    double *const found = x.sums + 1, *const done = x.sums + 3;
    const double wd_ratio = s.wd_ratio;
    w.single([=] ON_DEVICE() {
      *ratio = 1;
      *done = 0;
    });
    if (x.shape.dims.size() <= 1) return;
    double* sums = x.sums + 4;
    for (const int64_t rows : {x.shape.dims[0], int64_t{1}}) {
      w.single([=] ON_DEVICE() { *found = *done == 0 ? 1 : 0; });
      if (!w.may_be_nonzero(found)) continue;
      along(s, w, x, rows, d, sums, found);
      w.single([=] ON_DEVICE() {
        if (*found == 0) return;
        *ratio = wd_ratio;
        *done = 1;
      });
      sums += 4 * rows;
    }
  }

  // Public because nvcc requires it for functions that contain kernels.
  template <class T, class Worker>
  static void along(const RuleSettings& s, const Worker& w, const TensorStep<T>& x, int64_t rows, T* d, double* sums,
                    double* found) {
    const int64_t each = rows > 0 ? x.n / rows : 0;
    const T *const p = x.p, *const g = x.g;
    double *const gg = sums, *const pp = gg + rows, *const gp = pp + rows, *const pd = gp + rows,
                  *const most = found + 1;
    const double eps = s.eps, bound = s.delta / std::sqrt(static_cast<double>(each));
    w.sums(
        rows, each, [=] ON_DEVICE(int64_t i) { return static_cast<double>(g[i]) * static_cast<double>(g[i]); }, gg);
    w.sums(
        rows, each, [=] ON_DEVICE(int64_t i) { return static_cast<double>(p[i]) * static_cast<double>(p[i]); }, pp);
    w.sums(
        rows, each, [=] ON_DEVICE(int64_t i) { return static_cast<double>(g[i]) * static_cast<double>(p[i]); }, gp);
    w.largest(
        rows,
        [=] ON_DEVICE(int64_t r) {
          const double a = sqrt(gg[r]), b = sqrt(pp[r]);
          return fabs(gp[r]) / ((a > eps ? a : eps) * (b > eps ? b : eps));
        },
        most);
    w.single([=] ON_DEVICE() { *found = *found != 0 && *most < bound ? 1 : 0; });
    if (!w.may_be_nonzero(found)) return;
    w.sums(
        rows, each, [=] ON_DEVICE(int64_t i) { return static_cast<double>(p[i]) * static_cast<double>(d[i]); }, pd);
    w.matrix(rows, each, [=] ON_DEVICE(int64_t r, int64_t j) {
      const double norm = sqrt(pp[r]) + eps;
      const int64_t i = r * each + j;
      if (*found != 0) d[i] -= static_cast<T>(static_cast<double>(p[i]) / norm * (pd[r] / norm));
    });
  }
};

struct AdamPStep {
  double bias2;
};

struct AdamP : TensorRule {
  static constexpr std::string_view name = "adamp";
  static constexpr RuleKey keys[] = {kBeta1, kBeta2, kEps, kDelta, kDecayRatio};
  static std::vector<TensorState> states(const RuleSettings&, const TensorShape& shape) {
    return {{"average", shape.count()}, {"square", shape.count()}};
  }
  static int64_t scratch(const RuleSettings&, const TensorShape& shape) { return shape.count(); }
  static int64_t sums(const RuleSettings&, const TensorShape& shape) { return Projection::sums(shape); }

  template <class T, class Worker>
  static void step(const RuleSettings& s, const Worker& w, const TensorStep<T>& x) {
    const T beta1 = static_cast<T>(s.beta1), beta2 = static_cast<T>(s.beta2), rest1 = static_cast<T>(1 - s.beta1),
            rest2 = static_cast<T>(1 - s.beta2), eps = static_cast<T>(s.eps);
    const double decay1 = s.beta1, decay2 = s.beta2;
    const bool nesterov = s.nesterov;
    T *const p = x.p, *const g = x.g, *const d = x.scratch, *const m = x.s[0], *const v = x.s[1];
    const TensorTime* const now = x.now;
    w.elements(
        x.n, [=] ON_DEVICE() { return AdamPStep{sqrt(1 - pow(decay2, static_cast<double>(now->t)))}; },
        [=] ON_DEVICE(const AdamPStep& k, int64_t i) {
          m[i] = m[i] * beta1 + rest1 * g[i];
          v[i] = v[i] * beta2 + rest2 * g[i] * g[i];
          const T root = sqrt(v[i]) / static_cast<T>(k.bias2) + eps;
          d[i] = (nesterov ? beta1 * m[i] + rest1 * g[i] : m[i]) / root;
        });
    double* const ratio = x.sums;
    Projection::apply(s, w, x, d, ratio);
    w.elements(
        x.n,
        [=] ON_DEVICE() {
          return ProjectedMove<T>{static_cast<T>(1 - now->lr * now->decay * *ratio),
                                  static_cast<T>(now->lr / (1 - pow(decay1, static_cast<double>(now->t))))};
        },
        [=] ON_DEVICE(const ProjectedMove<T>& k, int64_t i) { p[i] = p[i] * k.shrink - k.size * d[i]; });
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
  static int64_t sums(const RuleSettings&, const TensorShape& shape) { return Projection::sums(shape); }

  template <class T, class Worker>
  static void step(const RuleSettings& s, const Worker& w, const TensorStep<T>& x) {
    const T momentum = static_cast<T>(s.momentum), rest = static_cast<T>(1 - s.dampening);
    const bool nesterov = s.nesterov;
    T *const p = x.p, *const g = x.g, *const d = x.scratch, *const m = x.s[0];
    const TensorTime* const now = x.now;
    w.elements(x.n, [=] ON_DEVICE(int64_t i) {
      m[i] = m[i] * momentum + rest * g[i];
      d[i] = nesterov ? g[i] + momentum * m[i] : m[i];
    });
    double* const ratio = x.sums;
    Projection::apply(s, w, x, d, ratio);
    const double keep = 1 - s.momentum;
    w.elements(
        x.n,
        [=] ON_DEVICE() {
          return ProjectedMove<T>{static_cast<T>(1 - now->lr * now->decay * *ratio / keep), static_cast<T>(now->lr)};
        },
        [=] ON_DEVICE(const ProjectedMove<T>& k, int64_t i) { p[i] = p[i] * k.shrink - k.size * d[i]; });
  }
};

}  // namespace amp
