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
  const cpu::RepeatedProduct<T> by_weights(c, H, 4 * H, true, H);
  if (c.measuring()) return {};
  return [=] {
    x.load();
    const auto by_R = by_weights.packed(x.input(1));
    const T *xg = x.input(0), *P = x.input(5);
    T *y = x.output(0), *hs = x.output(1), *cs = x.output(2), *gates = x.output(3), *cells = x.output(4);
    std::copy_n(x.input(2), B * H, hs);
    std::copy_n(x.input(3), B * H, cs);
    std::copy_n(xg, s.time * B * 4 * H, gates);
    for (int64_t step = 0; step < s.time; ++step) {
      const int64_t t = s.at(step);
      T* G = gates + t * B * 4 * H;
      by_R.run(B, hs, H, true, G, 4 * H);
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

// One sequence at one step, differentiated. dh, above: the gradients of its state from the next step and of its output.
template <class T>
struct Cell {
  const T* gates;  // i, o, f, c, activated
  T* slopes;       // their gradients before the activation
  const T* cell;   // C
  T* dc;           // its gradient, then that of the cell before
  int64_t H;

  // Sigmoids, tanh and tanh; no peepholes.
  void usual(const T* before, const T* dh, const T* above) const {
    const T *i = gates, *o = i + H, *f = o + H, *n = f + H;
    T *di = slopes, *d_o = di + H, *df = d_o + H, *dn = df + H, *carried = dc;
    const T* C = cell;
    simd([&]() AMP_INLINE {
      for (int64_t k = 0; k < H; ++k) {
        const T top = dh[k] + (above ? above[k] : T(0)), hc = math::tanh(C[k]);
        const T dC = carried[k] + top * o[k] * (T(1) - hc * hc);
        d_o[k] = top * hc * (o[k] * (T(1) - o[k]));
        di[k] = dC * n[k] * (i[k] * (T(1) - i[k]));
        df[k] = dC * before[k] * (f[k] * (T(1) - f[k]));
        dn[k] = dC * i[k] * (T(1) - n[k] * n[k]);
        carried[k] = dC * f[k];
      }
    });
  }

  void any(const T* before, const T* dh, const T* above, const Activation& f, const Activation& g, const Activation& h,
           const T* P, T* dP) const {
    const T *i = gates, *o = i + H, *fg = o + H, *n = fg + H;
    T *di = slopes, *d_o = di + H, *df = d_o + H, *dn = df + H;
    for (int64_t k = 0; k < H; ++k) {
      const T top = dh[k] + (above ? above[k] : T(0)), hc = h.value(cell[k]);
      d_o[k] = top * hc * f.slope(o[k]);
      T dC = dc[k] + top * o[k] * h.slope(hc);
      if (P) dC += d_o[k] * P[H + k];
      di[k] = dC * n[k] * f.slope(i[k]);
      df[k] = dC * before[k] * f.slope(fg[k]);
      dn[k] = dC * i[k] * g.slope(n[k]);
      dc[k] = dC * fg[k];
      if (P) {
        dc[k] += di[k] * P[k] + df[k] * P[2 * H + k];
        dP[k] += di[k] * before[k];
        dP[H + k] += d_o[k] * cell[k];
        dP[2 * H + k] += df[k] * before[k];
      }
    }
  }
};

template <class T>
Kernel backward(const KernelArgs& a, Carver& c) {
  const Operands<T> x(a, c);
  const Steps s(a.in[7].dims, a.attrs(), a.has(3) ? a.in[3] : Tensor{});
  const int64_t H = s.hidden, B = s.batch, T_ = s.time;
  const Activation f = read_activation(a.attrs(), 0), g = read_activation(a.attrs(), 1),
                   h = read_activation(a.attrs(), 2);
  const bool usual = f.kind == Activation::sigmoid && g.kind == Activation::tanh && h.kind == Activation::tanh;
  T* const next = c.take<T>(B * H);
  T* const before = c.take<T>(T_ * B * H);
  const cpu::RepeatedProduct<T> by_weights(c, 4 * H, H, false, H);
  if (c.measuring()) return {};
  return [=] {
    x.load();
    const auto by_R = by_weights.packed(x.input(0));
    const T *c0 = x.input(2), *P = x.input(4), *gates = x.input(5), *cells = x.input(6), *y = x.input(7),
            *dy = x.input(8);
    T *dxg = x.output(0), *dR = x.output(1), *dh = x.output(2), *dc = x.output(3), *dP = x.output(4);
    copy_or_zero(x.input(9), dh, B * H);
    copy_or_zero(x.input(10), dc, B * H);
    std::fill(dP, dP + 3 * H, T(0));
    for (int64_t step = T_; step-- > 0;) {
      const int64_t t = s.at(step);
      T* const D = dxg + t * B * 4 * H;
      // Peepholes' gradients are summed over sequences: one thread then.
      parallel_ranges(B, P ? B : 8192 / H + 1, [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
          const Cell<T> cell{gates + (t * B + b) * 4 * H, D + b * 4 * H, cells + (t * B + b) * H, dc + b * H, H};
          if (t >= s.length(b)) {
            std::fill(cell.slopes, cell.slopes + 4 * H, T(0));
            continue;
          }
          const T* prev = s.before(cells, t, b);
          if (!prev) prev = c0 + b * H;
          const T* above = dy ? dy + (t * B + b) * H : nullptr;
          if (usual && !P)
            cell.usual(prev, dh + b * H, above);
          else
            cell.any(prev, dh + b * H, above, f, g, h, P, dP);
        }
      });
      by_R.run(B, D, 4 * H, false, next, H);
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
