// The operations of a tensor-wise optimizer (backend/tensor_rule.h) on the GPU, of one or two launches each. They do
// nothing in a skipped step and for a frozen tensor, except matrix products, which write only scratch memory.
#pragma once

#include <map>
#include <tuple>

#include "backend/cuda/update_shards.cuh"
#include "backend/tensor_rule.h"

namespace amp::cuda {

namespace tensor_kernels {

using update_kernels::kThreads;

// Decides whether a tensor is updated in a step. over() returns true if the step is skipped or the tensor is frozen.
struct Turn {
  const UpdateState* state;
  int64_t from_step;
  DEV bool over() const { return state->found_inf != 0 || from_step >= state->applied; }
};

template <class F>
struct Elements {
  Turn turn;
  int64_t n;
  F f;
  DEV void operator()() const {
    if (turn.over()) return;
    for (int64_t i = global_index(); i < n; i += global_threads()) f(i);
  }
};

template <class Prepare, class F>
struct PreparedElements {
  Turn turn;
  int64_t n;
  Prepare prepare;
  F f;
  DEV void operator()() const {
    if (turn.over()) return;
    const auto c = prepare();
    for (int64_t i = global_index(); i < n; i += global_threads()) f(c, i);
  }
};

template <class F>
struct Matrix {
  F f;
  int64_t columns;
  DEV void operator()(int64_t i) const {
    const int64_t row = quotient(i, columns);
    f(row, i - row * columns);
  }
};

struct Larger {
  DEV double operator()(double a, double b) const { return a > b ? a : b; }
};

// Each block reduces a part of a row of f's values (`each` values per row, divided into n_parts parts) to parts[row *
// n_parts + part].
template <class F, class Op>
struct RowParts {
  static constexpr bool cooperative = true;
  Turn turn;
  int64_t rows, each, n_parts;
  F f;
  Op op;
  double* parts;
  DEV void operator()() const {
    if (turn.over()) return;
    const int64_t length = (each + n_parts - 1) / n_parts;
    for (int64_t b = block_index(); b < rows * n_parts; b += grid_blocks()) {
      const int64_t row = b / n_parts, begin = b % n_parts * length;
      const int64_t end = begin + length < each ? begin + length : each;
      double sum = 0;
      for (int64_t j = begin + thread_index(); j < end; j += block_threads()) sum = op(sum, f(row * each + j));
      sum = block_reduce(sum, 0.0, op, shared_memory<double>());
      if (thread_index() == 0) parts[b] = sum;
    }
  }
};

// The rows of a matrix are divided into n_parts parts. Each thread reduces one column of one part to parts[(matrix *
// n_parts + part) * columns + column].
template <class F>
struct ColumnParts {
  int64_t rows, columns, n_parts;
  F f;
  double* parts;
  DEV void operator()(int64_t i) const {
    const int64_t column = i % columns, part = i / columns % n_parts, matrix = i / columns / n_parts;
    const int64_t length = (rows + n_parts - 1) / n_parts, begin = part * length;
    const int64_t end = begin + length < rows ? begin + length : rows;
    double sum = 0;
    for (int64_t r = begin; r < end; ++r) sum += f((matrix * rows + r) * columns + column);
    parts[i] = sum;
  }
};

// Computes out[group * columns + column] from the partial results of each group. A group is a row (RowParts, with one
// column) or a matrix (ColumnParts).
template <class Op>
struct JoinParts {
  int64_t columns, n_parts;
  Op op;
  const double* parts;
  double* out;
  DEV void operator()(int64_t i) const {
    const int64_t group = i / columns, column = i % columns;
    double sum = 0;
    for (int64_t k = 0; k < n_parts; ++k) sum = op(sum, parts[(group * n_parts + k) * columns + column]);
    out[i] = sum;
  }
};

struct CopyElements {
  const float* from;
  float* to;
  DEV void operator()(int64_t i) const { to[i] = from[i]; }
};
struct ScaleElements {
  float* x;
  float by;
  DEV void operator()(int64_t i) const { x[i] *= by; }
};
template <class F>
struct Once {
  F f;
  DEV void operator()(int64_t) const { f(); }
};

}  // namespace tensor_kernels

// Resources that workers keep between steps: plans of products by shape, memory for partial sums.
class TensorTools {
 public:
  explicit TensorTools(CudaDevice& d) : device(d) {}
  CudaDevice& device;

  double* parts(int64_t count) {
    if (count > n_parts_) {
      device.synchronize();
      parts_ = device.allocate(count * 8);
      n_parts_ = count;
    }
    return static_cast<double*>(parts_.get());
  }
  void product(const Gemm& g, const void* a, const void* b, void* c) {
    const Key key{g.m, g.n, g.k, g.trans_a, g.trans_b, g.lda, g.ldb, g.ldc, g.alpha, g.beta};
    auto at = plans_.find(key);
    if (at == plans_.end()) at = plans_.emplace(key, device.gemm(g)).first;
    at->second(a, b, c);
  }

 private:
  using Key = std::tuple<int64_t, int64_t, int64_t, bool, bool, int64_t, int64_t, int64_t, double, double>;
  std::map<Key, std::function<void(const void*, const void*, void*)>> plans_;
  DeviceMemory parts_;
  int64_t n_parts_ = 0;
};

class TensorWorker {
 public:
  TensorWorker(TensorTools& tools, const tensor_kernels::Turn& turn) : tools_(tools), d_(tools.device), turn_(turn) {}

  template <class F>
  void elements(int64_t n, const F& f) const {
    if (n > 0) launch(d_, loop_grid(d_, n), tensor_kernels::Elements<F>{turn_, n, f});
  }
  template <class Prepare, class F>
  void elements(int64_t n, const Prepare& prepare, const F& f) const {
    if (n > 0) launch(d_, loop_grid(d_, n), tensor_kernels::PreparedElements<Prepare, F>{turn_, n, prepare, f});
  }
  template <class F>
  void matrix(int64_t rows, int64_t columns, const F& f) const {
    elements(rows * columns, tensor_kernels::Matrix<F>{f, columns});
  }
  template <class F>
  void sums(int64_t rows, int64_t each, const F& f, double* out) const {
    reduce(rows, each, f, Sum{}, out);
  }
  template <class F>
  void largest(int64_t n, const F& f, double* out) const {
    reduce(1, n, f, tensor_kernels::Larger{}, out);
  }
  template <class F>
  void column_sums(int64_t matrices, int64_t rows, int64_t columns, const F& f, double* out) const {
    const int64_t parts = std::clamp<int64_t>(rows / 64, 1, 64), n = matrices * parts * columns;
    double* const sums = parts == 1 ? out : tools_.parts(n);
    elements(n, tensor_kernels::ColumnParts<F>{rows, columns, parts, f, sums});
    if (parts > 1) elements(matrices * columns, tensor_kernels::JoinParts<Sum>{columns, parts, Sum{}, sums, out});
  }
  template <class F>
  void single(const F& f) const {
    elements(1, tensor_kernels::Once<F>{f});
  }
  void copy(const float* from, float* to, int64_t n) const { elements(n, tensor_kernels::CopyElements{from, to}); }
  void product(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda,
               const float* b, int64_t ldb, float beta, float* c, int64_t ldc) const {
    if (beta != 0 && beta != 1) elements(m * ldc, tensor_kernels::ScaleElements{c, beta});
    Gemm g;
    g.m = m;
    g.n = n;
    g.k = k;
    g.trans_a = trans_a;
    g.trans_b = trans_b;
    g.lda = lda;
    g.ldb = ldb;
    g.ldc = ldc;
    g.alpha = static_cast<double>(alpha);
    g.beta = beta == 0 ? 0 : 1;
    tools_.product(g, a, b, c);
  }
  bool may_be_nonzero(const double*) const { return true; }  // the host does not read the device's memory

 private:
  template <class F, class Op>
  void reduce(int64_t rows, int64_t each, const F& f, const Op& op, double* out) const {
    if (rows == 0) return;
    const int64_t wanted = std::max<int64_t>(1, int64_t{d_.multiprocessors()} * 8 / rows);
    const int64_t parts = std::clamp<int64_t>(each / 4096, 1, wanted);
    double* const sums = parts == 1 ? out : tools_.parts(rows * parts);
    const int64_t blocks = std::min(rows * parts, int64_t{d_.multiprocessors()} * 16);
    launch(d_, {blocks, tensor_kernels::kThreads, 256},
           tensor_kernels::RowParts<F, Op>{turn_, rows, each, parts, f, op, sums});
    if (parts > 1) elements(rows, tensor_kernels::JoinParts<Op>{1, parts, op, sums, out});
  }

  TensorTools& tools_;
  CudaDevice& d_;
  tensor_kernels::Turn turn_;
};

}  // namespace amp::cuda
