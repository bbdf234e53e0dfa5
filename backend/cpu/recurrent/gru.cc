// GRU and its gradient (ONNX GRU, both values of linear_before_reset). recurrent.h defines inputs and outputs.
// The product of the state with the weights is a RepeatedProduct; gates are computed by the thread that has
// computed their columns.

#include "backend/cpu/recurrent/recurrent.h"

namespace amp {

namespace {

// Computes h' = (1 - z) n + z h at every step. xz, xr and xn are the gates' parts of the input xg
// (recurrent.h):
//   z = f(xz + h Rz^T), r = f(xr + h Rr^T), n = g(xn + (r h) Rn^T)
//   with linear_before_reset: n = g(xn + r hn), hn = h Rn^T + rb
template <class T>
Kernel forward(const KernelArgs& a, Carver& c) {
  const Operands<T> x(a, c);
  const Steps s(a.out[0].dims, a.attrs(), a.has(3) ? a.in[3] : Tensor{});
  const int64_t H = s.hidden, B = s.batch;
  const bool after = a.has(4);
  const Activation f = read_activation(a.attrs(), 0), g = read_activation(a.attrs(), 1);
  const cpu::RepeatedProduct<T> by_R(c, a.in[1].dtype, 2, H, H, true), by_Rn(c, a.in[1].dtype, 1, H, H, true);
  const DType type = DTypeOf<T>::value;
  T* const states = c.take<T>(2 * B * H);  // states before and after the step, alternating
  if (c.measuring()) return {};
  return [=, args = a] {
    x.load();
    const T *xg = x.input(0), *rb = x.input(4);
    by_R.pack(args.in[1].data);
    by_Rn.pack(Stored(args.in[1]).at(2 * H * H));
    T *y = x.output(0), *gates = x.output(2), *hn_all = x.output(3);
    std::copy_n(x.input(2), B * H, states);
    for (int64_t step = 0; step < s.time; ++step) {
      const int64_t t = s.at(step);
      const T *const X = xg + t * B * 3 * H, *const before = states + step % 2 * B * H;
      T *const G = gates + t * B * 3 * H, *const hn = hn_all + t * B * H,
               *const after_step = states + (step + 1) % 2 * B * H;
      by_R.run({before, type}, H, B, step % 2 != 0, false, [&](const cpu::ProductPiece<T>& piece) {
        const int64_t j = piece.first, n = piece.last - j;
        for (int64_t b = piece.begin; b < piece.end; ++b) {
          for (const int64_t p : {0, 1}) {
            const int64_t at = b * 3 * H + p * H + j;
            for (int64_t k = 0; k < n; ++k) G[at + k] = X[at + k] + piece.at(b, p)[k];
            apply(f, G + at, n);
          }
          const T *const r = G + b * 3 * H + H + j, *const h = before + b * H + j;
          for (int64_t k = 0; k < n; ++k) hn[b * H + j + k] = after ? rb[j + k] : r[k] * h[k];
        }
      });
      by_Rn.run({after ? before : hn, type}, H, B, step % 2 != 0, false, [&](const cpu::ProductPiece<T>& piece) {
        const int64_t j = piece.first, n = piece.last - j;
        for (int64_t b = piece.begin; b < piece.end; ++b) {
          const T *const z = G + b * 3 * H + j, *const r = z + H, *const sum = piece.at(b, 0),
                         *const h = before + b * H + j;
          T *const out = G + b * 3 * H + 2 * H + j, *const yt = y + (t * B + b) * H + j,
                   *const ht = after_step + b * H + j;
          const T* const in = X + b * 3 * H + 2 * H + j;
          const bool active = t < s.length(b);
          for (int64_t k = 0; after && k < n; ++k) hn[b * H + j + k] += sum[k];
          for (int64_t k = 0; k < n; ++k) out[k] = in[k] + (!after ? sum[k] : active ? r[k] * hn[b * H + j + k] : T(0));
          if (!active) {
            std::fill_n(yt, n, T(0));
            std::copy_n(h, n, ht);
            continue;
          }
          apply(g, out, n);
          for (int64_t k = 0; k < n; ++k) yt[k] = ht[k] = (T(1) - z[k]) * out[k] + z[k] * h[k];
        }
      });
    }
    std::copy_n(states + s.time % 2 * B * H, B * H, x.output(1));
    x.store();
  };
}

// Computes the gradients of one sequence at one time step.
template <class T>
struct Cell {
  const T* gates;         // z, r and n after their activation
  T* slopes;              // gradients of the gates' pre-activations; of r's only with linear_before_reset
  const T *before, *hn;   // before: the state before the step; hn: h Rn^T + rb
  const T* above;         // the gradient of the step's output, or null
  T* dh;                  // in: gradient of the state; out: the part that does not pass through gates
  T *through_n, *into_n;  // left and right factors of the gradient of Rn
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
    simd([&]() AMP_INLINE {  // specialized for sigmoid and tanh
      each(
          active, [](T y) AMP_INLINE { return y * (T(1) - y); }, [](T y) AMP_INLINE { return T(1) - y * y; });
    });
  }
};

// Sets out[k] to the sum of column k of `in` (rows, n).
template <class T>
void sum_rows(const T* in, int64_t rows, int64_t n, T* out) {
  std::fill(out, out + n, T(0));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t k = 0; k < n; ++k) out[k] += in[i * n + k];
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
  T* const reset = c.take<T>(B * H);
  T* const before = c.take<T>(T_ * B * H);
  T* const through_n = c.take<T>(T_ * B * H);  // left factor of the gradient of Rn: dn, or r dn if `after`
  T* const into_n = c.take<T>(T_ * B * H);     // right factor of the gradient of Rn: r h, or h if `after`
  const cpu::RepeatedProduct<T> by_R(c, a.in[0].dtype, 1, H, 2 * H, false), by_Rn(c, a.in[0].dtype, 1, H, H, false);
  const DType type = DTypeOf<T>::value;
  const StateWeightsGrad of_gates(c, type, T_ * B, 2 * H, H, type, type), of_n(c, type, T_ * B, H, H, type, type);
  if (c.measuring()) return {};
  return [=, args = a] {
    x.load();
    const T *h0 = x.input(1), *gates = x.input(4), *hn = x.input(5), *y = x.input(6), *dy = x.input(7);
    T *dxg = x.output(0), *dh = x.output(2), *drb = x.output(3);
    by_R.pack(args.in[0].data);
    by_Rn.pack(Stored(args.in[0]).at(2 * H * H));
    start_from(args, 8, type, dh, B * H);
    s.all_before({const_cast<T*>(y), type, {}}, {const_cast<T*>(h0), type, {}}, before);
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
      by_Rn.run({left, type}, H, B, step % 2 != 0, false, [&](const cpu::ProductPiece<T>& piece) {
        for (int64_t b = piece.begin; b < piece.end; ++b) {
          for (int64_t k = piece.first; k < piece.last; ++k) {
            const T sum = piece.at(b, 0)[k - piece.first], r = G[b * 3 * H + H + k];
            if (!after) D[b * 3 * H + H + k] = sum * hp[b * H + k] * f.slope(r);
            reset[b * H + k] = after ? sum : sum * r;
          }
        }
      });
      by_R.run({D, type}, 3 * H, B, step % 2 != 0, false, [&](const cpu::ProductPiece<T>& piece) {
        // `reset` and the product are 0 for a sequence that has ended.
        for (int64_t b = piece.begin; b < piece.end; ++b) {
          for (int64_t k = piece.first; k < piece.last; ++k)
            dh[b * H + k] += reset[b * H + k] + piece.at(b, 0)[k - piece.first];
        }
      });
    }
    of_gates.run(dxg, 3 * H, before, {x.output(1), type, {}}, 0);
    of_n.run(through_n, H, into_n, {x.output(1), type, {}}, 2 * H);
    sum_rows(through_n, after ? T_ * B : 0, H, drb);
    x.store();
  };
}

}  // namespace

Kernel gru(const KernelArgs& a, Carver& c) { return in_double(a) ? forward<double>(a, c) : forward<float>(a, c); }
Kernel gru_grad(const KernelArgs& a, Carver& c) {
  return in_double(a) ? backward<double>(a, c) : backward<float>(a, c);
}

}  // namespace amp
