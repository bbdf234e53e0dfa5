#include "backend/cpu/recurrent.h"

namespace amp {

namespace {

template <class T>
Kernel forward(const KernelArgs& a, Carver& c) {
  const Operands<T> x(a, c);
  const Steps s(a.out[0].dims, a.attrs(), a.has(3) ? a.in[3] : Tensor{});
  const int64_t H = s.hidden, B = s.batch;
  const Activation f = read_activation(a.attrs(), 0);
  const cpu::RepeatedProduct<T> by_weights(c, H, H, true, H);
  if (c.measuring()) return {};
  return [=] {
    x.load();
    const auto by_R = by_weights.packed(x.input(1));
    T *y = x.output(0), *hs = x.output(1);
    std::copy_n(x.input(2), B * H, hs);
    std::copy_n(x.input(0), s.time * B * H, y);
    for (int64_t step = 0; step < s.time; ++step) {
      const int64_t t = s.at(step);
      T* yt = y + t * B * H;
      by_R.run(B, hs, H, true, yt, H);
      for (int64_t b = 0; b < B; ++b) {
        if (t >= s.length(b)) {
          std::fill(yt + b * H, yt + (b + 1) * H, T(0));
          continue;
        }
        apply(f, yt + b * H, H);
        std::copy_n(yt + b * H, H, hs + b * H);
      }
    }
    x.store();
  };
}

template <class T>
Kernel backward(const KernelArgs& a, Carver& c) {
  const Operands<T> x(a, c);
  const Steps s(a.in[3].dims, a.attrs(), a.has(2) ? a.in[2] : Tensor{});
  const int64_t H = s.hidden, B = s.batch, T_ = s.time;
  const Activation f = read_activation(a.attrs(), 0);
  T* const next = c.take<T>(B * H);
  T* const before = c.take<T>(T_ * B * H);
  const cpu::RepeatedProduct<T> by_weights(c, H, H, false, H);
  if (c.measuring()) return {};
  return [=] {
    x.load();
    const auto by_R = by_weights.packed(x.input(0));
    const T *y = x.input(3), *dy = x.input(4);
    T *dxg = x.output(0), *dR = x.output(1), *dh = x.output(2);
    copy_or_zero(x.input(5), dh, B * H);
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
      by_R.run(B, D, H, false, next, H);
      for (int64_t b = 0; b < B; ++b) {
        if (t < s.length(b)) std::copy_n(next + b * H, H, dh + b * H);
      }
    }
    s.all_before(y, x.input(1), before);
    cpu::parallel_gemm<T>(true, false, H, H, T_ * B, T(1), dxg, H, before, H, T(0), dR, H);
    x.store();
  };
}

}  // namespace

Kernel rnn(const KernelArgs& a, Carver& c) { return in_double(a) ? forward<double>(a, c) : forward<float>(a, c); }
Kernel rnn_grad(const KernelArgs& a, Carver& c) {
  return in_double(a) ? backward<double>(a, c) : backward<float>(a, c);
}

}  // namespace amp
