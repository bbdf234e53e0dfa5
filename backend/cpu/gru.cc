#include "backend/cpu/recurrent.h"

namespace amp {

namespace {

// z = f(xz + h Rz^T), r = f(xr + h Rr^T), n = g(xn + (r h) Rn^T) or, reset after, g(xn + r hn) with hn = h Rn^T + rb;
// h' = (1 - z) n + z h
template <class T>
Kernel forward(const KernelArgs& a, Carver& c) {
  const Operands<T> x(a, c);
  const Steps s(a.out[0].dims, a.attrs(), a.has(3) ? a.in[3] : Tensor{});
  const int64_t H = s.hidden, B = s.batch, grain = 8192 / H + 1;
  const bool after = a.has(4);
  const Activation f = read_activation(a.attrs(), 0), g = read_activation(a.attrs(), 1);
  const cpu::RepeatedProduct<T> by_gates(c, H, 2 * H, true, H), by_state(c, H, H, true, H);
  if (c.measuring()) return {};
  return [=] {
    x.load();
    const T *xg = x.input(0), *R = x.input(1), *rb = x.input(4);
    const auto by_R = by_gates.packed(R), by_Rn = by_state.packed(R + 2 * H * H);
    T *y = x.output(0), *hs = x.output(1), *gates = x.output(2), *hn_all = x.output(3);
    std::copy_n(x.input(2), B * H, hs);
    std::copy_n(xg, s.time * B * 3 * H, gates);
    for (int64_t step = 0; step < s.time; ++step) {
      const int64_t t = s.at(step);
      T *G = gates + t * B * 3 * H, *hn = hn_all + t * B * H;
      by_R.run(B, hs, H, true, G, 3 * H);
      parallel_ranges(B, grain, [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
          apply(f, G + b * 3 * H, 2 * H);
          for (int64_t k = 0; k < H; ++k) hn[b * H + k] = after ? rb[k] : G[b * 3 * H + H + k] * hs[b * H + k];
        }
      });
      if (after) {
        by_Rn.run(B, hs, H, true, hn, H);
      } else {
        by_Rn.run(B, hn, H, true, G + 2 * H, 3 * H);
      }
      parallel_ranges(B, grain, [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
          T *z = G + b * 3 * H, *r = z + H, *n = r + H, *hb = hs + b * H, *yt = y + (t * B + b) * H;
          if (t >= s.length(b)) {
            std::fill(yt, yt + H, T(0));
            continue;
          }
          if (after) {
            for (int64_t k = 0; k < H; ++k) n[k] += r[k] * hn[b * H + k];
          }
          apply(g, n, H);
          for (int64_t k = 0; k < H; ++k) yt[k] = hb[k] = (T(1) - z[k]) * n[k] + z[k] * hb[k];
        }
      });
    }
    x.store();
  };
}

// One sequence at one step, differentiated.
template <class T>
struct Cell {
  const T* gates;         // z, r, n, activated
  T* slopes;              // their gradients before the activation; of r only where the reset comes after the product
  const T *before, *hn;   // the state before; h Rn^T + rb
  const T* above;         // the gradient of its output, or null
  T* dh;                  // of its state; then what of it goes past the gates
  T *through_n, *into_n;  // what Rn multiplies, from the left and from the right
  int64_t H;
  bool after;

  template <class F, class G>
  AMP_INLINE void each(bool active, const F& f, const G& g) const {
    const T *z = gates, *r = z + H, *n = r + H;
    T *dz = slopes, *dr = dz + H, *dn = dr + H;
    for (int64_t k = 0; k < H; ++k) {
      const T top = active ? dh[k] + (above ? above[k] : T(0)) : T(0);
      dn[k] = top * (T(1) - z[k]) * g(n[k]);
      dz[k] = top * (before[k] - n[k]) * f(z[k]);
      dr[k] = after ? dn[k] * hn[k] * f(r[k]) : T(0);
      through_n[k] = after ? dn[k] * r[k] : dn[k];
      into_n[k] = after ? before[k] : r[k] * before[k];
      if (active) dh[k] = top * z[k];
    }
  }
  void differentiate(bool active, bool usual, const Activation& f, const Activation& g) const {
    if (!usual)
      return each(
          active, [&](T y) { return f.slope(y); }, [&](T y) { return g.slope(y); });
    simd([&]() AMP_INLINE {  // sigmoid and tanh
      each(
          active, [](T y) AMP_INLINE { return y * (T(1) - y); }, [](T y) AMP_INLINE { return T(1) - y * y; });
    });
  }
};

// The reset gates' slopes of one step where the reset comes before the product: reset (B, H) holds d(r h), then dh.
template <class T>
void reset_slopes(const Activation& f, const T* gates, const T* before, T* slopes, T* reset, int64_t B, int64_t H) {
  for (int64_t b = 0; b < B; ++b) {
    const T* r = gates + b * 3 * H + H;
    T* dr = slopes + b * 3 * H + H;
    for (int64_t k = 0; k < H; ++k) {
      const int64_t e = b * H + k;
      dr[k] = reset[e] * before[e] * f.slope(r[k]);
      reset[e] *= r[k];
    }
  }
}

template <class T>
Kernel backward(const KernelArgs& a, Carver& c) {
  const Operands<T> x(a, c);
  const Steps s(a.in[6].dims, a.attrs(), a.has(2) ? a.in[2] : Tensor{});
  const int64_t H = s.hidden, B = s.batch, T_ = s.time, grain = 8192 / H + 1;
  const bool after = a.has(3);
  const Activation f = read_activation(a.attrs(), 0), g = read_activation(a.attrs(), 1);
  const bool usual = f.kind == Activation::sigmoid && g.kind == Activation::tanh;
  T* const next = c.take<T>(B * H);
  T* const reset = c.take<T>(B * H);
  T* const before = c.take<T>(T_ * B * H);
  T* const through_n = c.take<T>(T_ * B * H);  // what Rn multiplies from the left: dn, or r dn
  T* const into_n = c.take<T>(T_ * B * H);     // what Rn multiplies from the right: r h, or h
  const cpu::RepeatedProduct<T> by_gates(c, 2 * H, H, false, H), by_state(c, H, H, false, H);
  if (c.measuring()) return {};
  return [=] {
    x.load();
    const T *R = x.input(0), *h0 = x.input(1), *gates = x.input(4), *hn = x.input(5), *y = x.input(6), *dy = x.input(7);
    T *dxg = x.output(0), *dR = x.output(1), *dh = x.output(2), *drb = x.output(3);
    const auto by_R = by_gates.packed(R), by_Rn = by_state.packed(R + 2 * H * H);
    copy_or_zero(x.input(8), dh, B * H);
    s.all_before(y, h0, before);
    for (int64_t step = T_; step-- > 0;) {
      const int64_t t = s.at(step), at = t * B;
      const T *G = gates + at * 3 * H, *hp = before + at * H;
      T *D = dxg + at * 3 * H, *left = through_n + at * H, *right = into_n + at * H;
      parallel_ranges(B, grain, [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
          const int64_t e = b * H;
          const Cell<T> cell{
              G + 3 * e, D + 3 * e, hp + e, hn + at * H + e, dy ? dy + at * H + e : nullptr, dh + e, left + e,
              right + e, H,         after};
          cell.differentiate(t < s.length(b), usual, f, g);
        }
      });
      by_Rn.run(B, left, H, false, reset, H);
      if (!after) reset_slopes(f, G, hp, D, reset, B, H);
      by_R.run(B, D, 3 * H, false, next, H);
      for (int64_t e = 0; e < B * H; ++e) dh[e] += reset[e] + next[e];  // both 0 for a sequence that takes no part
    }
    cpu::parallel_gemm<T>(true, false, 2 * H, H, T_ * B, T(1), dxg, 3 * H, before, H, T(0), dR, H);
    cpu::parallel_gemm<T>(true, false, H, H, T_ * B, T(1), through_n, H, into_n, H, T(0), dR + 2 * H * H, H);
    std::fill(drb, drb + H, T(0));
    for (int64_t i = 0; after && i < T_ * B; ++i) {
      for (int64_t k = 0; k < H; ++k) drb[k] += through_n[i * H + k];
    }
    x.store();
  };
}

}  // namespace

Kernel gru(const KernelArgs& a, Carver& c) { return in_double(a) ? forward<double>(a, c) : forward<float>(a, c); }
Kernel gru_grad(const KernelArgs& a, Carver& c) {
  return in_double(a) ? backward<double>(a, c) : backward<float>(a, c);
}

}  // namespace amp
