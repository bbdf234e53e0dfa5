#include "backend/cpu/recurrent.h"

namespace amp {

namespace {

// z = f(xz + h Rz^T), r = f(xr + h Rr^T), n = g(xn + (r h) Rn^T) or, reset after, g(xn + r hn) with hn = h Rn^T + rb;
// h' = (1 - z) n + z h
template <class T>
Kernel forward(const KernelArgs& a, Carver& c) {
  const Operands<T> x(a, c);
  const Steps s(a.out[0].dims, a.attrs(), a.has(3) ? a.in[3] : Tensor{});
  const int64_t H = s.hidden, B = s.batch;
  const bool after = a.has(4);
  const Activation f = read_activation(a.attrs(), 0), g = read_activation(a.attrs(), 1);
  if (c.measuring()) return {};
  return [=] {
    x.load();
    const T *xg = x.input(0), *R = x.input(1), *rb = x.input(4), *Rn = R + 2 * H * H;
    T *y = x.output(0), *hs = x.output(1), *gates = x.output(2), *hn_all = x.output(3);
    std::copy_n(x.input(2), B * H, hs);
    std::copy_n(xg, s.time * B * 3 * H, gates);
    for (int64_t step = 0; step < s.time; ++step) {
      const int64_t t = s.at(step);
      T *G = gates + t * B * 3 * H, *hn = hn_all + t * B * H;
      cpu::parallel_gemm<T>(false, true, B, 2 * H, H, T(1), hs, H, R, H, T(1), G, 3 * H);
      for (int64_t b = 0; b < B; ++b) {
        apply(f, G + b * 3 * H, 2 * H);
        for (int64_t k = 0; k < H; ++k) hn[b * H + k] = after ? rb[k] : G[b * 3 * H + H + k] * hs[b * H + k];
      }
      if (after) {
        cpu::parallel_gemm<T>(false, true, B, H, H, T(1), hs, H, Rn, H, T(1), hn, H);
      } else {
        cpu::parallel_gemm<T>(false, true, B, H, H, T(1), hn, H, Rn, H, T(1), G + 2 * H, 3 * H);
      }
      for (int64_t b = 0; b < B; ++b) {
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
    }
    x.store();
  };
}

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
  const int64_t H = s.hidden, B = s.batch, T_ = s.time;
  const bool after = a.has(3);
  const Activation f = read_activation(a.attrs(), 0), g = read_activation(a.attrs(), 1);
  T* const next = c.take<T>(B * H);
  T* const reset = c.take<T>(B * H);
  T* const before = c.take<T>(T_ * B * H);
  T* const through_n = c.take<T>(T_ * B * H);  // what Rn multiplies from the left: dn, or r dn
  T* const into_n = c.take<T>(T_ * B * H);     // what Rn multiplies from the right: r h, or h
  if (c.measuring()) return {};
  return [=] {
    x.load();
    const T *R = x.input(0), *Rn = R + 2 * H * H, *h0 = x.input(1), *gates = x.input(4), *hn = x.input(5),
            *y = x.input(6), *dy = x.input(7);
    T *dxg = x.output(0), *dR = x.output(1), *dh = x.output(2), *drb = x.output(3);
    copy_or_zero(x.input(8), dh, B * H);
    s.all_before(y, h0, before);
    for (int64_t step = T_; step-- > 0;) {
      const int64_t t = s.at(step), at = t * B;
      const T *G = gates + at * 3 * H, *hp = before + at * H;
      T *D = dxg + at * 3 * H, *left = through_n + at * H, *right = into_n + at * H;
      for (int64_t b = 0; b < B; ++b) {
        const T *z = G + b * 3 * H, *r = z + H, *n = r + H;
        T *dz = D + b * 3 * H, *dr = dz + H, *dn = dr + H;
        const bool active = t < s.length(b);
        for (int64_t k = 0; k < H; ++k) {
          const int64_t e = b * H + k;
          const T top = active ? dh[e] + (dy ? dy[at * H + e] : T(0)) : T(0);
          dn[k] = top * (T(1) - z[k]) * g.slope(n[k]);
          dz[k] = top * (hp[e] - n[k]) * f.slope(z[k]);
          dr[k] = after ? dn[k] * hn[at * H + e] * f.slope(r[k]) : T(0);
          left[e] = after ? dn[k] * r[k] : dn[k];
          right[e] = after ? hp[e] : r[k] * hp[e];
          if (active) dh[e] = top * z[k];
        }
      }
      cpu::parallel_gemm<T>(false, false, B, H, H, T(1), left, H, Rn, H, T(0), reset, H);
      if (!after) reset_slopes(f, G, hp, D, reset, B, H);
      cpu::parallel_gemm<T>(false, false, B, H, 2 * H, T(1), D, 3 * H, R, H, T(0), next, H);
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
