// Recurrent layers, one direction, time-major. What LSTM, GRU and RNN kernels share, and the kernels.
//
// xg (T, B, G H) holds the input's part of the gates' pre-activations, all biases that are plainly added included; R (G
// H, H);
// lens (B) the lengths of the sequences, or absent: from its length on a sequence's y is 0 and its state stays. Gates
// are saved activated, in ONNX's order. Activations are differentiated from their results.
//
//   LSTM(xg, R, h0, c0, lens?, P (3H)?) -> y (T, B, H), h (B, H), c (B, H), gates iofc (T, B, 4H), cells (T, B, H)
//   LSTMGrad(R, h0, c0, lens?, P?, gates, cells, y, dy?, dh?, dc?) -> dxg, dR, dh0, dc0, dP
//   GRU(xg, R, h0, lens?, rb (H)?) -> y, h, gates zrh (T, B, 3H), hn (T, B, H)     rb given: linear_before_reset, hn =
//   h R_h^T + rb
//   GRUGrad(R, h0, lens?, rb?, gates, hn, y, dy?, dh?) -> dxg, dR, dh0, drb
//   RNN(xg, R, h0, lens?) -> y, h;  RNNGrad(R, h0, lens?, y, dy?, dh?) -> dxg, dR, dh0
// Attributes: reverse; activation, alpha, beta by gate function.
#pragma once

#include "backend/activation.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/operands.h"
#include "backend/cpu/repeated_product.h"

namespace amp {

Kernel lstm(const KernelArgs& a, Carver& c);
Kernel lstm_grad(const KernelArgs& a, Carver& c);
Kernel gru(const KernelArgs& a, Carver& c);
Kernel gru_grad(const KernelArgs& a, Carver& c);
Kernel rnn(const KernelArgs& a, Carver& c);
Kernel rnn_grad(const KernelArgs& a, Carver& c);

// x[i] = f(x[i])
template <class T>
void apply(const Activation& f, T* x, int64_t n) {
  switch (f.kind) {  // the two that matter get loops of their own
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

// The order of the steps, who takes part in them, and where the state before a step is found.
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
  // Row of the state before step t of sequence b in (T, B, H), or null: the initial state.
  template <class T>
  const T* before(const T* states, int64_t t, int64_t b) const {
    const int64_t p = reverse ? t + 1 : t - 1;
    return p < 0 || p >= length(b) ? nullptr : states + (p * batch + b) * hidden;
  }
  // (T, B, H): the state before each step, 0 where a sequence takes no part.
  template <class T>
  void all_before(const T* states, const T* initial, T* out) const {
    for (int64_t t = 0; t < time; ++t) {
      for (int64_t b = 0; b < batch; ++b) {
        T* q = out + (t * batch + b) * hidden;
        const T* p = before(states, t, b);
        if (t >= length(b))
          std::fill(q, q + hidden, T(0));
        else
          std::copy_n(p ? p : initial + b * hidden, hidden, q);
      }
    }
  }
};

template <class T>
void copy_or_zero(const T* from, T* to, int64_t n) {
  if (from)
    std::copy_n(from, n, to);
  else
    std::fill(to, to + n, T(0));
}

}  // namespace amp
