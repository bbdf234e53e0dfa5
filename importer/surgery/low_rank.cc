// Implements principal() by subspace iteration. Q starts as a random matrix and is replaced by an orthonormal basis of
// (W W^T)^k W Q. The small matrix Q^T W then has the largest singular values of W; a Jacobi iteration on its Gram
// matrix finds them.
#include "importer/surgery/low_rank.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "importer/surgery/edit.h"

namespace amp {
namespace {

constexpr int kIterations = 4, kMore = 8;

// A matrix in double, stored by rows.
struct Matrix {
  int64_t rows = 0, columns = 0;
  std::vector<double> at;
  Matrix(int64_t r, int64_t c) : rows(r), columns(c), at(static_cast<size_t>(r * c)) {}
  double* row(int64_t i) { return at.data() + i * columns; }
  const double* row(int64_t i) const { return at.data() + i * columns; }
};

// Replaces the rows of m by an orthonormal basis of their span. Rows that depend linearly on others become 0. Each row
// is projected twice, because one projection is not exact enough.
void orthonormalize(Matrix& m) {
  for (int64_t i = 0; i < m.rows; ++i) {
    double* x = m.row(i);
    const double before = std::sqrt(std::inner_product(x, x + m.columns, x, 0.0));
    for (int pass = 0; pass < 2; ++pass) {
      for (int64_t j = 0; j < i; ++j) {
        const double* y = m.row(j);
        const double dot = std::inner_product(x, x + m.columns, y, 0.0);
        for (int64_t k = 0; k < m.columns; ++k) x[k] -= dot * y[k];
      }
    }
    const double norm = std::sqrt(std::inner_product(x, x + m.columns, x, 0.0));
    const double factor = norm > 1e-12 * before && norm > 0 ? 1 / norm : 0;
    for (int64_t k = 0; k < m.columns; ++k) x[k] *= factor;
  }
}

// Returns q w^T [q.rows, in] for rows of length out.
Matrix times_transposed(const Matrix& q, const float* w, int64_t in, int64_t out) {
  Matrix y(q.rows, in);
  for (int64_t i = 0; i < in; ++i) {
    for (int64_t r = 0; r < q.rows; ++r) {
      const double* x = q.row(r);
      double sum = 0;
      for (int64_t j = 0; j < out; ++j) sum += x[j] * w[i * out + j];
      y.row(r)[i] = sum;
    }
  }
  return y;
}

// Returns q w [q.rows, out] for rows of length in.
Matrix times(const Matrix& q, const float* w, int64_t in, int64_t out) {
  Matrix y(q.rows, out);
  for (int64_t i = 0; i < in; ++i) {
    for (int64_t r = 0; r < q.rows; ++r) {
      const double x = q.row(r)[i];
      double* to = y.row(r);
      for (int64_t j = 0; j < out; ++j) to[j] += x * w[i * out + j];
    }
  }
  return y;
}

// Diagonalizes the symmetric matrix s by Jacobi rotations. Returns its eigenvectors as rows; s keeps the eigenvalues on
// its diagonal.
Matrix eigenvectors(Matrix& s) {
  const int64_t n = s.rows;
  Matrix v(n, n);
  for (int64_t i = 0; i < n; ++i) v.row(i)[i] = 1;
  for (int sweep = 0; sweep < 60; ++sweep) {
    double off = 0, diagonal = 0;
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = 0; q < n; ++q) (p == q ? diagonal : off) += s.row(p)[q] * s.row(p)[q];
    }
    if (off <= 1e-26 * diagonal) break;
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) {
        if (s.row(p)[q] == 0) continue;
        const double theta = (s.row(q)[q] - s.row(p)[p]) / (2 * s.row(p)[q]);
        const double t = (theta >= 0 ? 1 : -1) / (std::abs(theta) + std::sqrt(theta * theta + 1));
        const double c = 1 / std::sqrt(t * t + 1), d = t * c;
        for (int64_t k = 0; k < n; ++k) {
          const double a = s.row(k)[p], b = s.row(k)[q];
          s.row(k)[p] = c * a - d * b;
          s.row(k)[q] = d * a + c * b;
        }
        for (int64_t k = 0; k < n; ++k) {
          const double a = s.row(p)[k], b = s.row(q)[k];
          s.row(p)[k] = c * a - d * b;
          s.row(q)[k] = d * a + c * b;
          const double x = v.row(p)[k], y = v.row(q)[k];
          v.row(p)[k] = c * x - d * y;
          v.row(q)[k] = d * x + c * y;
        }
      }
    }
  }
  return v;
}

}  // namespace

LowRank principal(const HostTensor& w, int64_t r, uint64_t seed) {
  const int64_t in = w.dims()[0], out = w.dims()[1], width = std::min({r + kMore, in, out});
  const float* p = w.as<float>();
  Matrix q(width, in);
  const std::vector<double> start = normal_tensor({width, in}, 1, seed, name_hash("principal")).to_doubles();
  std::copy(start.begin(), start.end(), q.at.begin());
  for (int k = 0; k < kIterations; ++k) {
    orthonormalize(q);
    Matrix back = times(q, p, in, out);
    orthonormalize(back);
    q = times_transposed(back, p, in, out);
  }
  orthonormalize(q);
  const Matrix small = times(q, p, in, out);  // [width, out]
  Matrix gram(width, width);
  for (int64_t i = 0; i < width; ++i) {
    for (int64_t j = 0; j < width; ++j)
      gram.row(i)[j] = std::inner_product(small.row(i), small.row(i) + out, small.row(j), 0.0);
  }
  const Matrix v = eigenvectors(gram);
  std::vector<int64_t> order(static_cast<size_t>(width));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return gram.row(a)[a] > gram.row(b)[b]; });
  LowRank result{HostTensor::zeros(DType::f32, {in, r}), HostTensor::zeros(DType::f32, {r, out})};
  for (int64_t k = 0; k < std::min(r, width); ++k) {
    const int64_t e = order[static_cast<size_t>(k)];
    const double singular = std::sqrt(std::max(0.0, gram.row(e)[e]));
    if (singular == 0) continue;
    const double root = std::sqrt(singular);
    for (int64_t j = 0; j < width; ++j) {  // left = Q^T v, right = v^T (Q^T W)
      const double x = v.row(e)[j];
      for (int64_t i = 0; i < in; ++i)
        result.left.as_mutable<float>()[i * r + k] += static_cast<float>(root * x * q.row(j)[i]);
      for (int64_t i = 0; i < out; ++i)
        result.right.as_mutable<float>()[k * out + i] += static_cast<float>(x * small.row(j)[i] / root);
    }
  }
  return result;
}

HostTensor transposed_matrix(const HostTensor& t) {
  const int64_t rows = t.dims()[0], columns = t.dims()[1];
  HostTensor out = HostTensor::empty(DType::f32, {columns, rows});
  const float* in = t.as<float>();
  float* p = out.as_mutable<float>();
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) p[j * rows + i] = in[i * columns + j];
  }
  return out;
}

HostTensor columns_of(const HostTensor& w, int64_t first, int64_t count) {
  const int64_t in = w.dims()[0], out = w.dims()[1];
  HostTensor t = HostTensor::empty(DType::f32, {in, count});
  for (int64_t i = 0; i < in; ++i)
    std::copy_n(w.as<float>() + i * out + first, count, t.as_mutable<float>() + i * count);
  return t;
}

std::vector<double> column_squares(const HostTensor& w) {
  const int64_t in = w.dims()[0], out = w.dims()[1];
  std::vector<double> sums(static_cast<size_t>(out));
  const float* p = w.as<float>();
  for (int64_t i = 0; i < in; ++i) {
    for (int64_t j = 0; j < out; ++j)
      sums[static_cast<size_t>(j)] += static_cast<double>(p[i * out + j]) * p[i * out + j];
  }
  return sums;
}

HostTensor with_product(const HostTensor& w, bool transposed, const HostTensor& a, const HostTensor& b, double factor,
                        int64_t first) {
  const int64_t in = a.dims()[0], r = a.dims()[1], n = b.dims()[1], width = w.numel() / std::max<int64_t>(in, 1);
  const HostTensor from = w.cast(DType::f32);
  HostTensor out = HostTensor::empty(DType::f32, w.dims());
  const float *pa = a.as<float>(), *pb = b.as<float>(), *pw = from.as<float>();
  float* p = out.as_mutable<float>();
  std::copy_n(pw, w.numel(), p);
  for (int64_t i = 0; i < in; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double delta = 0;
      for (int64_t k = 0; k < r; ++k) delta += static_cast<double>(pa[i * r + k]) * pb[k * n + j];
      const int64_t to = transposed ? (first + j) * in + i : i * width + first + j;
      p[to] = static_cast<float>(pw[to] + factor * delta);
    }
  }
  return out.cast(w.dtype());
}

}  // namespace amp
