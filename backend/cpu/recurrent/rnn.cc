// Simple RNN and its gradient (ONNX RNN). recurrent.h defines inputs and outputs.

#include "backend/cpu/recurrent/recurrent.h"

namespace amp {

namespace {

template <class T>
Kernel forward(const KernelArgs& a, Carver& c) {
  const Operands<T> x(a, c);
  const Steps s(a.out[0].dims, a.attrs(), a.has(3) ? a.in[3] : Tensor{});
  const int64_t H = s.hidden, B = s.batch;
  const Activation f = read_activation(a.attrs(), 0);
  const cpu::RepeatedProduct<T> by_R(c, a.in[1].dtype, 1, H, H, true);
  T* const states = c.take<T>(2 * B * H);  // states before and after the step, alternating
  if (c.measuring()) return {};
  return [=, args = a] {
    x.load();
    by_R.pack(args.in[1].data);
    T* y = x.output(0);
    std::copy_n(x.input(2), B * H, states);
    for (int64_t step = 0; step < s.time; ++step) {
      const int64_t t = s.at(step);
      const T *const X = x.input(0) + t * B * H, *const before = states + step % 2 * B * H;
      T *const yt = y + t * B * H, *const after = states + (step + 1) % 2 * B * H;
      by_R.run({before, DTypeOf<T>::value}, H, B, step % 2 != 0, false, [&](const cpu::ProductPiece<T>& piece) {
        const int64_t n = piece.last - piece.first;
        for (int64_t b = piece.begin; b < piece.end; ++b) {
          const int64_t at = b * H + piece.first;
          if (t >= s.length(b)) {
            std::fill_n(yt + at, n, T(0));
            std::copy_n(before + at, n, after + at);
            continue;
          }
          for (int64_t k = 0; k < n; ++k) yt[at + k] = X[at + k] + piece.at(b, 0)[k];
          apply(f, yt + at, n);
          std::copy_n(yt + at, n, after + at);
        }
      });
    }
    std::copy_n(states + s.time % 2 * B * H, B * H, x.output(1));
    x.store();
  };
}

template <class T>
Kernel backward(const KernelArgs& a, Carver& c) {
  const Operands<T> x(a, c);
  const Steps s(a.in[3].dims, a.attrs(), a.has(2) ? a.in[2] : Tensor{});
  const int64_t H = s.hidden, B = s.batch, T_ = s.time;
  const Activation f = read_activation(a.attrs(), 0);
  T* const before = c.take<T>(T_ * B * H);
  const DType type = DTypeOf<T>::value;
  const cpu::RepeatedProduct<T> by_R(c, a.in[0].dtype, 1, H, H, false);
  const StateWeightsGrad of_weights(c, type, T_ * B, H, H, type, type);
  if (c.measuring()) return {};
  return [=, args = a] {
    x.load();
    by_R.pack(args.in[0].data);
    const T *y = x.input(3), *dy = x.input(4);
    T *dxg = x.output(0), *dh = x.output(2);
    start_from(args, 5, type, dh, B * H);
    for (int64_t step = T_; step-- > 0;) {
      const int64_t t = s.at(step);
      T* const D = dxg + t * B * H;
      for (int64_t b = 0; b < B; ++b) {
        const bool active = t < s.length(b);
        for (int64_t k = b * H; k < (b + 1) * H; ++k) {
          const int64_t at = t * B * H + k;
          D[k] = active ? (dh[k] + (dy ? dy[at] : T(0))) * f.slope(y[at]) : T(0);
        }
      }
      by_R.run({D, type}, H, B, step % 2 != 0, false, [&](const cpu::ProductPiece<T>& piece) {
        for (int64_t b = piece.begin; b < piece.end; ++b) {
          if (t < s.length(b)) std::copy_n(piece.at(b, 0), piece.last - piece.first, dh + b * H + piece.first);
        }
      });
    }
    s.all_before({const_cast<T*>(y), type, {}}, {const_cast<T*>(x.input(1)), type, {}}, before);
    of_weights.run(dxg, H, before, {x.output(1), type, {}}, 0);
    x.store();
  };
}

}  // namespace

Kernel rnn(const KernelArgs& a, Carver& c) { return in_double(a) ? forward<double>(a, c) : forward<float>(a, c); }
Kernel rnn_grad(const KernelArgs& a, Carver& c) {
  return in_double(a) ? backward<double>(a, c) : backward<float>(a, c);
}

}  // namespace amp
