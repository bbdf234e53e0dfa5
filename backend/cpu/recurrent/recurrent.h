// Recurrent layers (one direction, time-major): the kernels of LSTM, GRU and RNN, and the code that they share.
//
// xg (T, B, G * H), for G gates, is the part of the pre-activations that comes from the input, including all biases
// that are simply added. R (G * H, H) are the weights of the state. lens (B): the lengths of the sequences, or
// absent. After the end of a sequence its y is 0 and its state does not change. Gates are saved after their
// activation, in ONNX's order. Derivatives of activations are computed from the results.
//
//   LSTM(xg, R, h0, c0, lens?, P (3 * H)?) -> y (T, B, H), h (B, H), c (B, H),
//       gates iofc (T, B, 4 * H), cells (T, B, H)
//   LSTMGrad(R, h0, c0, lens?, P?, gates, cells, y, dy?, dh?, dc?) -> dxg, dR, dh0, dc0, dP
//   GRU(xg, R, h0, lens?, rb (H)?) -> y, h, gates zrh (T, B, 3 * H), hn (T, B, H)
//     If rb is given, linear_before_reset is true and hn = h R_h^T + rb.
//   GRUGrad(R, h0, lens?, rb?, gates, hn, y, dy?, dh?) -> dxg, dR, dh0, drb
//   RNN(xg, R, h0, lens?) -> y, h;  RNNGrad(R, h0, lens?, y, dy?, dh?) -> dxg, dR, dh0
// Attributes: reverse; activation, alpha and beta, which have one value per gate function.
#pragma once

#include <cstring>

#include "backend/activation.h"
#include "backend/cpu/gemm/packed_gemm.h"
#include "backend/cpu/gemm/repeated_product.h"
#include "backend/cpu/operands.h"
#include "backend/cpu/stored.h"
#include "backend/elementwise.h"
#include "base/simd.h"

namespace amp {

Kernel lstm(const KernelArgs& a, Carver& c);
Kernel lstm_grad(const KernelArgs& a, Carver& c);
Kernel gru(const KernelArgs& a, Carver& c);
Kernel gru_grad(const KernelArgs& a, Carver& c);
Kernel rnn(const KernelArgs& a, Carver& c);
Kernel rnn_grad(const KernelArgs& a, Carver& c);

// Replaces each x[i] by f(x[i]).
template <class T>
void apply(const Activation& f, T* x, int64_t n) {
  switch (f.kind) {  // the two common functions have separate loops
    case Activation::sigmoid:
      return simd([&]() AMP_INLINE {
        for (int64_t i = 0; i < n; ++i) x[i] = math::sigmoid(x[i]);
      });
    case Activation::tanh:
      return simd([&]() AMP_INLINE {
        for (int64_t i = 0; i < n; ++i) x[i] = math::tanh(x[i]);
      });
    default:
      for (int64_t i = 0; i < n; ++i) x[i] = f.value(x[i]);
  }
}

// Some elements of a tensor's row in computing type T: in place, or copied if they are stored in another type.
template <class T, int64_t Most = cpu::RepeatedProduct<T>::kColumns>
class RowPart {
 public:
  const T* read(const Tensor& t, int64_t at, int64_t n) { return elementwise_detail::load<T>(t, at, n, copy_); }
  T* place(const Tensor& t, int64_t at) { return t.dtype == DTypeOf<T>::value ? static_cast<T*>(t.data) + at : copy_; }
  // Writes the elements to their position in the tensor.
  void write(const Tensor& t, int64_t at, int64_t n) const {
    if (t.dtype != DTypeOf<T>::value) convert(DTypeOf<T>::value, copy_, t.dtype, StoredOut(t).at(at), n);
  }

 private:
  alignas(64) T copy_[Most];
};

// Adds to `ahead` the elements of x that belong to a piece's rows and hidden units. x has `parts` groups of columns,
// each with one column per hidden unit. Its rows of the current time step begin at `first`.
template <class T>
void fetch_rows(cpu::LinePrefetch& ahead, const Tensor& x, int64_t first, const cpu::ProductPiece<T>& piece,
                int64_t parts) {
  const int64_t columns = x.dims.back(), size = size_of(x.dtype), rows = piece.end - piece.begin;
  for (int64_t p = 0; p < parts; ++p) {
    ahead.add(Stored(x).at((first + piece.begin) * columns + p * (columns / parts) + piece.first), columns * size, rows,
              (piece.last - piece.first) * size);
  }
}

// The order of the time steps, which sequences are active in them, and the location of the state before a time step.
struct Steps {
  int64_t time, batch, hidden;
  bool reverse;
  Tensor lens;

  Steps(const Dims& y, const Attrs& a, const Tensor& lengths)
      : time(y[0]), batch(y[1]), hidden(y[2]), reverse(a.i("reverse", 0) != 0), lens(lengths) {}

  int64_t at(int64_t step) const { return reverse ? time - 1 - step : step; }
  int64_t length(int64_t b) const {
    if (!lens.data) return time;
    const int64_t n = lens.dtype == DType::i64 ? static_cast<const int64_t*>(lens.data)[b]
                                               : static_cast<const int32_t*>(lens.data)[b];
    if (n < 0 || n > time) fail(Exit::data, "E_DATA_SHAPE", cat("sequence length ", n, " is outside 0..", time));
    return n;
  }
  // Returns the index, among the (T, B) rows of all states, of the state before step t of sequence b; -1 for the
  // initial state.
  int64_t before(int64_t t, int64_t b) const {
    const int64_t p = reverse ? t + 1 : t - 1;
    return p < 0 || p >= length(b) ? -1 : p * batch + b;
  }
  // Writes to (T, B, H), in the type of `states` (T, B, H), the state before each step, and 0 for sequences that
  // have ended. initial (B, H).
  void all_before(const Tensor& states, const Tensor& initial, void* to) const {
    const int64_t row = hidden * size_of(states.dtype);
    parallel_ranges(time * batch, 8192 / hidden + 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t t = i / batch, b = i % batch;
        char* const out = static_cast<char*>(to) + i * row;
        if (t >= length(b)) {
          std::memset(out, 0, static_cast<size_t>(row));
        } else if (const int64_t p = before(t, b); p >= 0) {
          std::memcpy(out, static_cast<const char*>(states.data) + p * row, static_cast<size_t>(row));
        } else {
          convert(initial.dtype, Stored(initial).at(b * hidden), states.dtype, out, hidden);
        }
      }
    });
  }
};

// Computes dR = slopes^T before, the gradient of R, from the gradients of pre-activations. slopes (rows, n), before
// (rows, H), dR (n, H).
class StateWeightsGrad {
 public:
  StateWeightsGrad(Carver& carve, DType dR, int64_t rows, int64_t n, int64_t hidden, DType slopes, DType before);
  // `slopes` and `before` point to the first elements; rows of slopes are `ld` apart. The result is written to dR from
  // `row` on.
  void run(const void* slopes, int64_t ld, const void* before, const Tensor& dR, int64_t row) const;

 private:
  cpu::PackedGemm product_;
  void* workspace_ = nullptr;
};

// Copies operand i of the node to `to` (n elements of `type`); zeros if it is absent.
inline void start_from(const KernelArgs& a, size_t i, DType type, void* to, int64_t n) {
  if (a.has(i))
    convert(a.in[i].dtype, a.in[i].data, type, to, n);
  else
    std::memset(to, 0, static_cast<size_t>(n * size_of(type)));
}

}  // namespace amp
