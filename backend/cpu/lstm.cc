#include "backend/cpu/recurrent.h"

namespace amp {

namespace {

// Gates of one sequence at one step: i, o, f, c side by side.
template <class T>
Kernel forward(const KernelArgs& a, Carver& c) {
  const Operands<T> x(a, c);
  const Steps s(a.out[0].dims, a.attrs(), a.has(4) ? a.in[4] : Tensor{});
  const int64_t H = s.hidden, B = s.batch;
  const Activation f = read_activation(a.attrs(), 0), g = read_activation(a.attrs(), 1),
                   h = read_activation(a.attrs(), 2);
  if (c.measuring()) return {};
  return [=] {
    x.load();
    const T *xg = x.input(0), *R = x.input(1), *P = x.input(5);
    T *y = x.output(0), *hs = x.output(1), *cs = x.output(2), *gates = x.output(3), *cells = x.output(4);
    std::copy_n(x.input(2), B * H, hs);
    std::copy_n(x.input(3), B * H, cs);
    std::copy_n(xg, s.time * B * 4 * H, gates);
    for (int64_t step = 0; step < s.time; ++step) {
      const int64_t t = s.at(step);
      T* G = gates + t * B * 4 * H;
      cpu::parallel_gemm<T>(false, true, B, 4 * H, H, T(1), hs, H, R, H, T(1), G, 4 * H);
      parallel_ranges(B, 8192 / H + 1, [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
          T *i = G + b * 4 * H, *o = i + H, *fg = o + H, *n = fg + H, *C = cs + b * H, *hb = hs + b * H;
          T *yt = y + (t * B + b) * H, *ct = cells + (t * B + b) * H;
          if (t >= s.length(b)) {
            std::fill(i, i + 4 * H, T(0));
            std::fill(yt, yt + H, T(0));
            std::copy_n(C, H, ct);
            continue;
          }
          if (P) {
            for (int64_t k = 0; k < H; ++k) i[k] += P[k] * C[k];
            for (int64_t k = 0; k < H; ++k) fg[k] += P[2 * H + k] * C[k];
          }
          apply(f, i, H);
          apply(f, fg, H);
          apply(g, n, H);
          for (int64_t k = 0; k < H; ++k) C[k] = fg[k] * C[k] + i[k] * n[k];
          if (P) {
            for (int64_t k = 0; k < H; ++k) o[k] += P[H + k] * C[k];
          }
          apply(f, o, H);
          std::copy_n(C, H, ct);
          std::copy_n(C, H, hb);
          apply(h, hb, H);
          for (int64_t k = 0; k < H; ++k) hb[k] *= o[k];
          std::copy_n(hb, H, yt);
        }
      });
    }
    x.store();
  };
}

template <class T>
Kernel backward(const KernelArgs& a, Carver& c) {
  const Operands<T> x(a, c);
  const Steps s(a.in[7].dims, a.attrs(), a.has(3) ? a.in[3] : Tensor{});
  const int64_t H = s.hidden, B = s.batch, T_ = s.time;
  const Activation f = read_activation(a.attrs(), 0), g = read_activation(a.attrs(), 1),
                   h = read_activation(a.attrs(), 2);
  T* const next = c.take<T>(B * H);
  T* const before = c.take<T>(T_ * B * H);
  if (c.measuring()) return {};
  return [=] {
    x.load();
    const T *R = x.input(0), *c0 = x.input(2), *P = x.input(4), *gates = x.input(5), *cells = x.input(6),
            *y = x.input(7), *dy = x.input(8);
    T *dxg = x.output(0), *dR = x.output(1), *dh = x.output(2), *dc = x.output(3), *dP = x.output(4);
    copy_or_zero(x.input(9), dh, B * H);
    copy_or_zero(x.input(10), dc, B * H);
    std::fill(dP, dP + 3 * H, T(0));
    for (int64_t step = T_; step-- > 0;) {
      const int64_t t = s.at(step);
      T* const D = dxg + t * B * 4 * H;
      for (int64_t b = 0; b < B; ++b) {
        T *di = D + b * 4 * H, *d_o = di + H, *df = d_o + H, *dn = df + H, *DC = dc + b * H;
        if (t >= s.length(b)) {
          std::fill(di, di + 4 * H, T(0));
          continue;
        }
        const T *i = gates + (t * B + b) * 4 * H, *o = i + H, *fg = o + H, *n = fg + H, *C = cells + (t * B + b) * H;
        const T* prev = s.before(cells, t, b);
        if (!prev) prev = c0 + b * H;
        for (int64_t k = 0; k < H; ++k) {
          const T top = dh[b * H + k] + (dy ? dy[(t * B + b) * H + k] : T(0)), hc = h.value(C[k]);
          d_o[k] = top * hc * f.slope(o[k]);
          T dC = DC[k] + top * o[k] * h.slope(hc);
          if (P) dC += d_o[k] * P[H + k];
          di[k] = dC * n[k] * f.slope(i[k]);
          df[k] = dC * prev[k] * f.slope(fg[k]);
          dn[k] = dC * i[k] * g.slope(n[k]);
          DC[k] = dC * fg[k];
          if (P) {
            DC[k] += di[k] * P[k] + df[k] * P[2 * H + k];
            dP[k] += di[k] * prev[k];
            dP[H + k] += d_o[k] * C[k];
            dP[2 * H + k] += df[k] * prev[k];
          }
        }
      }
      cpu::parallel_gemm<T>(false, false, B, H, 4 * H, T(1), D, 4 * H, R, H, T(0), next, H);
      for (int64_t b = 0; b < B; ++b) {
        if (t < s.length(b)) std::copy_n(next + b * H, H, dh + b * H);
      }
    }
    s.all_before(y, x.input(1), before);
    cpu::parallel_gemm<T>(true, false, 4 * H, H, T_ * B, T(1), dxg, 4 * H, before, H, T(0), dR, H);
    x.store();
  };
}

}  // namespace

Kernel lstm(const KernelArgs& a, Carver& c) { return in_double(a) ? forward<double>(a, c) : forward<float>(a, c); }
Kernel lstm_grad(const KernelArgs& a, Carver& c) {
  return in_double(a) ? backward<double>(a, c) : backward<float>(a, c);
}

}  // namespace amp
