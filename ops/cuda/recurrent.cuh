// Code that the kernels of LSTM, GRU and RNN share (semantics: backend/cpu/recurrent/recurrent.h). A time step is one
// or two matrix products and one elementwise kernel with one thread per sequence and hidden unit. Arithmetic is fp32;
// 16-bit operands are converted in the workspace.
#pragma once

#include "backend/activation.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/ref.cuh"
#include "backend/cuda/staged.h"

namespace amp::cuda {

// The order of the time steps, the lengths of the sequences, and where the state before a step is stored.
struct Steps {
  int64_t time = 0, batch = 0, hidden = 0;
  bool reverse = false;
  Ref lens;

  Steps(const Dims& y, const Attrs& a, const Tensor& lengths)
      : time(y[0]), batch(y[1]), hidden(y[2]), reverse(a.i("reverse", 0) != 0) {
    if (lengths.data) lens = lengths;
  }
  int64_t at(int64_t step) const { return reverse ? time - 1 - step : step; }
  int64_t states() const { return batch * hidden; }

  // Returns the length of sequence b, clamped to 0..time, because a kernel cannot raise an error.
  DEV int64_t length(int64_t b) const {
    if (!lens) return time;
    const int64_t n = load<int64_t>(lens, b);
    return n < 0 ? 0 : n > time ? time : n;
  }
  // Returns element k of sequence b's state before step t. states: (T, B, H); initial: (B, H).
  DEV float before(const float* states, const float* initial, int64_t t, int64_t b, int64_t k) const {
    const int64_t p = reverse ? t + 1 : t - 1;
    return p < 0 || p >= length(b) ? initial[b * hidden + k] : states[(p * batch + b) * hidden + k];
  }
};

// Computes the state before each step, (T, B, H). It is 0 after the end of a sequence.
struct AllBefore {
  Steps s;
  const float *states, *initial;
  float* out;
  DEV void operator()(int64_t i) const {
    const int64_t row = i / s.hidden, t = row / s.batch, b = row - t * s.batch;
    out[i] = t >= s.length(b) ? 0.0f : s.before(states, initial, t, b, i - row * s.hidden);
  }
};

// Sums the columns of a (rows, columns) matrix with elements f(row, column). A block has 32 columns. Warp w sums rows
// w, w + warps, ...; the warps' sums are added in order.
template <class F>
struct WarpColumnSums {
  static constexpr bool cooperative = true;
  F f;
  int64_t rows, columns;
  float* out;
  DEV void operator()() const {
    float* const scratch = shared_memory<float>();
    const int warps = block_threads() / 32;
    for (int64_t first = block_index() * 32; first < columns; first += grid_blocks() * 32) {
      const int64_t column = first + lane();
      float sum = 0;
      for (int64_t r = warp(); column < columns && r < rows; r += warps) sum += f(r, column);
      scratch[thread_index()] = sum;
      sync_threads();
      if (warp() == 0 && column < columns) {
        for (int w = 1; w < warps; ++w) sum += scratch[w * 32 + lane()];
        out[column] = sum;
      }
      sync_threads();
    }
  }
};
template <class F>
void column_sums(CudaDevice& d, int64_t rows, int64_t columns, const F& f, float* out) {
  launch(d, {(columns + 31) / 32, 256, 256 * 4}, WarpColumnSums<F>{f, rows, columns, out});
}

using MatrixProduct = std::function<void(const void*, const void*, void*)>;

// Returns a product in fp32. If k = 0, it sets c to 0, or leaves c unchanged if beta is 1; the rows of c must then be
// contiguous.
inline MatrixProduct product(CudaDevice& d, const Gemm& g) {
  if (g.m == 0 || g.n == 0) return [](const void*, const void*, void*) {};
  if (g.k > 0) return d.gemm(g);
  if (g.beta != 0) return [](const void*, const void*, void*) {};
  return [&d, bytes = g.m * g.n * 4](const void*, const void*, void* c) { d.fill(c, 0, bytes); };
}
// The alignment of the addresses of a, b and c in the calls of a product (Gemm::stride_a). The distance of each
// address from an aligned address is a multiple of this many elements. 0: the address itself is aligned.
struct Moving {
  int64_t a = 0, b = 0, c = 0;
};
inline Gemm moving(Gemm g, const Moving& by) {
  g.stride_a = by.a;
  g.stride_b = by.b;
  g.stride_c = by.c;
  return g;
}
// Returns a product that computes c (m, n) += a (m, k) b, where b is (k, n), or (n, k) if `transposed`. lda and
// ldc: the distances between rows of a and of c.
inline MatrixProduct adding(CudaDevice& d, int64_t m, int64_t n, int64_t k, bool transposed, int64_t lda, int64_t ldc,
                            const Moving& by) {
  Gemm g = moving({m, n, k}, by);
  g.trans_b = transposed;
  g.lda = lda;
  g.ldc = ldc;
  g.beta = 1;
  return product(d, g);
}
// Returns a product that computes c (m, n) = a^T b, a sum over `rows` rows. lda: the distance between rows of a.
inline MatrixProduct weight_gradient(CudaDevice& d, int64_t m, int64_t n, int64_t rows, int64_t lda,
                                     const Moving& by = {}) {
  Gemm g = moving({m, n, rows}, by);
  g.trans_a = true;
  g.lda = lda;
  return product(d, g);
}

// The operands of a node in fp32. load() converts the inputs to fp32, store() converts the outputs from fp32.
struct Operands {
  std::vector<Staged> in, out;
  std::vector<Dims> out_dims;
  Operands(const KernelArgs& a, Carver& c) {
    if (in_double(a)) no_fp64(a);
    for (const Tensor& t : a.in)
      in.push_back(t.data && is_float(t.dtype) ? Staged::input(a, c, t, DType::f32) : Staged{});
    for (const Tensor& t : a.out) {
      out.push_back(Staged::output(a, c, t, DType::f32));
      out_dims.push_back(t.dims);
    }
  }
  const float* input(size_t i) const { return i < in.size() ? static_cast<const float*>(in[i].data) : nullptr; }
  float* output(size_t i) const { return static_cast<float*>(out[i].data); }
  int64_t bytes(size_t i) const { return numel(out_dims[i]) * 4; }
  void load() const {
    for (const Staged& s : in) s.move();
  }
  void store() const {
    for (const Staged& s : out) s.move();
  }
  // Initializes output i with input j, or with 0 if the node has no input j.
  void begin(CudaDevice& d, size_t i, size_t j) const {
    if (input(j))
      d.copy(output(i), input(j), bytes(i));
    else
      d.fill(output(i), 0, bytes(i));
  }
};

inline Activation read_activation(const KernelArgs& a, size_t i) { return amp::read_activation(a.attrs(), i); }
inline Tensor optional_input(const KernelArgs& a, size_t i) { return a.has(i) ? a.in[i] : Tensor{}; }

}  // namespace amp::cuda
