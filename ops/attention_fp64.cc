// Fused attention in fp64 on the CPU: a direct implementation of the formulas in ops/fused_attention.h, one block of
// queries at a time. Tests use it as the reference for the fp32 kernels (attention_tiles.cc).
#include <cmath>
#include <utility>

#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/operands.h"
#include "backend/rows.h"
#include "base/math.h"
#include "ops/attention_heads.h"

namespace amp::attention_detail {

namespace {

// All tensors in fp64: the tensors themselves if they are fp64, else converted copies.
struct Images {
  std::vector<Tensor> in, out;
  Operands<double> images;
  Images(const KernelArgs& a, Carver& c) : in(a.in), out(a.out), images(a, c) {
    for (size_t i = 0; i < in.size(); ++i) {
      if (images.input(i)) in[i] = {const_cast<double*>(images.input(i)), DType::f64, in[i].dims};
    }
    for (size_t i = 0; i < out.size(); ++i) out[i] = {images.output(i), DType::f64, out[i].dims};
    in.resize(9);
  }
};

struct Matrix {
  Matrix(const double* x, int64_t stride) : data(x), ld(stride) {}
  Matrix(const StoredRows& m) : data(static_cast<const double*>(m.data)), ld(m.ld) {}
  double* out() const { return const_cast<double*>(data); }
  const double* data;
  int64_t ld;
};
void multiply(bool ta, bool tb, int64_t m, int64_t n, int64_t k, double alpha, const Matrix& a, const Matrix& b,
              double beta, const Matrix& c) {
  cpu::gemm(ta, tb, m, n, k, alpha, a.data, a.ld, b.data, b.ld, beta, c.out(), c.ld);
}

class Plain : protected Heads<double> {
 public:
  Plain(const KernelArgs& a, const Images& x)
      : Heads(a, x.in), x_(x), block_(std::max<int64_t>(32, 131072 / std::max<int64_t>(1, f_.longest_key()))) {}

 protected:
  // Computes the scores z = scale q k^T + mask of queries [i0, i0 + n). A query has u.keys scores.
  void scores(const Unit& u, int64_t i0, int64_t n, double* z, double* mask_row) const {
    multiply(false, true, n, u.keys, f_.width, f_.scale, at(q_, f_.q, u, i0), at(k_, f_.k, u, 0), 0, {z, u.keys});
    for (int64_t i = 0; mask_.data && i < n; ++i) add_mask(u, i0 + i, {0, u.keys}, 1, z + i * u.keys, mask_row);
  }
  int64_t largest_block() const {
    return std::min(block_, std::max<int64_t>(f_.longest_query(), 1)) * std::max<int64_t>(f_.longest_key(), 1);
  }

  Images x_;
  int64_t block_;  // queries per block
};

class Forward : Plain {
 public:
  Forward(const KernelArgs& a, const Images& x)
      : Plain(a, x), y_(x.out[0]), lse_(x.out[1].as<double>()), rest_(x.out[2].as<double>()) {}
  void operator()() const {
    x_.images.load();
    parallel_ranges(f_.units(), 1, [&](int64_t b, int64_t e) {
      for (int64_t u = b; u < e; ++u) head(unit(u));
    });
    clear_tail(y_, f_.y, f_.value_width);
    clear_statistics(lse_, rest_);
    x_.images.store();
  }

 private:
  void head(const Unit& u) const {
    const int64_t cells = largest_block();
    double* const z = thread_scratch<double>(cells + u.keys, 0);
    double* const row = z + cells;
    for (int64_t i0 = 0; i0 < u.queries; i0 += block_) {
      const int64_t n = std::min(block_, u.queries - i0);
      scores(u, i0, n, z, row);
      for (int64_t i = 0; i < n; ++i) {
        double* p = z + i * u.keys;
        const LogSum<double> s = softmax(p, u.keys);
        lse_[lse_at(u, i0 + i)] = s.lse;
        rest_[lse_at(u, i0 + i)] = s.rest;
        if (!f_.dropout) continue;
        factors(u, i0 + i, row);
        for (int64_t j = 0; j < u.keys; ++j) p[j] = row[j] == 0 ? 0 : p[j] * row[j];
      }
      multiply(false, false, n, f_.value_width, u.keys, 1, {z, u.keys}, at(v_, f_.v, u, 0), 0, at(y_, f_.y, u, i0));
    }
  }
  // Replaces the scores p of one query by their softmax. Returns the logarithm of the sum of exponentials.
  LogSum<double> softmax(double* p, int64_t n) const {
    if (n == 0) return {-kInf, 0};
    const double top = row_max(p, n);
    for (int64_t j = 0; j < n; ++j) p[j] = math::exp(p[j] - top);
    const double sum = lane_sum<double>(n, [&](int64_t j) { return p[j]; });
    for (int64_t j = 0; j < n; ++j) p[j] /= sum;
    if (top != -kInf) return split_log_sum(top, std::log(sum));
    if (!f_.empty_rows_zero) return {std::numeric_limits<double>::quiet_NaN(), 0};
    std::fill_n(p, n, 0.0);
    return {kInf, 0};
  }

  Tensor y_;
  double *lse_, *rest_;
};

class Backward : Plain {
 public:
  Backward(const KernelArgs& a, const Images& x)
      : Plain(a, x),
        y_(x.in[5]),
        dy_(x.in[7]),
        dq_(x.out[0]),
        dk_(f_.packed ? dq_ : x.out[1]),
        dv_(f_.packed ? dq_ : x.out[2]),
        lse_(x.in[6].as<double>()),
        rest_(x.in[8].as<double>()) {}
  void operator()() const {
    x_.images.load();
    parallel_ranges(f_.units(), 1, [&](int64_t b, int64_t e) {
      for (int64_t u = b; u < e; ++u) head(unit(u));
    });
    clear_tail(dq_, f_.q, f_.width);
    clear_tail(dk_, f_.k, f_.width);
    clear_tail(dv_, f_.v, f_.value_width);
    x_.images.store();
  }

 private:
  void head(const Unit& u) const {
    const int64_t cells = largest_block();
    double* at_ = thread_scratch<double>(2 * cells + 2 * u.keys, 0);
    const auto take = [&](int64_t n) { return std::exchange(at_, at_ + n); };
    double *const p = take(cells), *const g = take(cells), *const row = take(u.keys), *const factor = take(u.keys);
    const StoredRows dk = at(dk_, f_.k, u, 0), dv = at(dv_, f_.v, u, 0), k = at(k_, f_.k, u, 0);
    clear(dk, u.keys, f_.width);
    clear(dv, u.keys, f_.value_width);
    for (int64_t i0 = 0; i0 < u.queries; i0 += block_) {
      const int64_t n = std::min(block_, u.queries - i0);
      const Matrix dy = at(dy_, f_.y, u, i0), q = at(q_, f_.q, u, i0), y = at(y_, f_.y, u, i0);
      scores(u, i0, n, p, row);
      multiply(false, true, n, u.keys, f_.value_width, 1, dy, at(v_, f_.v, u, 0), 0, {g, u.keys});
      for (int64_t i = 0; i < n; ++i) {
        if (f_.dropout) factors(u, i0 + i, factor);
        differentiate(p + i * u.keys, g + i * u.keys, f_.dropout ? factor : nullptr, u.keys,
                      {lse_[lse_at(u, i0 + i)], rest_[lse_at(u, i0 + i)]}, y.data + i * y.ld, dy.data + i * dy.ld);
        if (hides()) hide(u, i0 + i, {0, u.keys}, g + i * u.keys);
      }
      multiply(false, false, n, f_.width, u.keys, f_.scale, {g, u.keys}, k, 0, at(dq_, f_.q, u, i0));
      multiply(true, false, u.keys, f_.width, n, f_.scale, {g, u.keys}, q, 1, dk);
      multiply(true, false, u.keys, f_.value_width, n, 1, {p, u.keys}, dy, 1, dv);
    }
  }
  // Replaces the scores p by dropout(softmax(p)), and g = dy v^T by ds, the gradient of the scores, before scaling.
  void differentiate(double* p, double* g, const double* factor, int64_t n, const LogSum<double>& s, const double* y,
                     const double* dy) const {
    if (std::isnan(s.lse) && std::all_of(dy, dy + f_.value_width, [](double d) { return d == 0; })) {
      std::fill_n(p, n, 0.0);
      std::fill_n(g, n, 0.0);
      return;
    }
    const double d = lane_sum<double>(f_.value_width, [&](int64_t h) { return y[h] * dy[h]; });
    for (int64_t j = 0; j < n; ++j) {
      const double soft = math::exp((p[j] - s.lse) - s.rest), f = factor ? factor[j] : 1;
      g[j] = soft * ((f == 0 ? 0 : g[j] * f) - d);
      p[j] = f == 0 ? 0 : soft * f;
    }
  }

  Tensor y_, dy_, dq_, dk_, dv_;
  const double *lse_, *rest_;
};

template <class K>
Kernel prepare(const KernelArgs& a, Carver& carver) {
  const Images x(a, carver);
  if (carver.measuring()) return {};
  return K(a, x);
}

}  // namespace

Kernel attention_fp64(const KernelArgs& a, Carver& carver) { return prepare<Forward>(a, carver); }
Kernel attention_grad_fp64(const KernelArgs& a, Carver& carver) { return prepare<Backward>(a, carver); }

}  // namespace amp::attention_detail
