// LSTM and its gradient (ONNX LSTM, with peepholes). recurrent.h defines inputs and outputs.
// The product of the state with the weights is a RepeatedProduct; cells are computed by the thread that has
// computed their columns.

#include "backend/cpu/recurrent/recurrent.h"

namespace amp {

namespace {

template <class T>
using Piece = cpu::ProductPiece<T>;

// Computes one time step of one sequence in the forward pass, for the hidden units of one Piece. Gates are in the order
// i, o, f, c.
template <class T>
struct Forward {
  const KernelArgs& a;
  const Steps& s;
  Activation f, g, h;
  bool usual;  // true for the activations sigmoid, tanh, tanh without peepholes

  void cell(int64_t t, int64_t b, const Piece<T>& piece, T* C, const Stored& h_before, const StoredOut& h_after) const {
    const int64_t H = s.hidden, k0 = piece.first, n = piece.last - k0, row = t * s.batch + b;
    const int64_t first = row * H + k0, state = b * H + k0;
    RowPart<T> gate[4], y, x;
    T *out[4], *const yt = y.place(a.out[0], first);
    for (int64_t p = 0; p < 4; ++p) out[p] = gate[p].place(a.out[3], row * 4 * H + p * H + k0);
    T *const i = out[0], *const o = out[1], *const fg = out[2], *const c = out[3];
    if (t >= s.length(b)) {
      for (T* const v : {i, o, fg, c, yt}) std::fill_n(v, n, T(0));
      std::memcpy(h_after.at(state), h_before.at(state), static_cast<size_t>(n * size_of(h_after.dtype)));
    } else {
      for (int64_t p = 0; p < 4; ++p) {
        const T *in = x.read(a.in[0], row * 4 * H + p * H + k0, n), *sum = piece.at(b, p);
        for (int64_t k = 0; k < n; ++k) out[p][k] = in[k] + sum[k];
      }
      if (usual) {
#pragma GCC ivdep
        for (int64_t k = 0; k < n; ++k) {
          i[k] = math::sigmoid(i[k]), fg[k] = math::sigmoid(fg[k]), c[k] = math::tanh(c[k]);
          C[k] = fg[k] * C[k] + i[k] * c[k];
          o[k] = math::sigmoid(o[k]);
          yt[k] = math::tanh(C[k]) * o[k];
        }
      } else {
        any(piece, i, o, fg, c, C, yt);
      }
      convert(DTypeOf<T>::value, yt, h_after.dtype, h_after.at(state), n);
    }
    y.write(a.out[0], first, n);
    for (int64_t p = 0; p < 4; ++p) gate[p].write(a.out[3], row * 4 * H + p * H + k0, n);
    convert(DTypeOf<T>::value, C, a.out[4].dtype, StoredOut(a.out[4]).at(first), n);
  }

  void any(const Piece<T>& piece, T* i, T* o, T* fg, T* c, T* C, T* yt) const {
    const int64_t n = piece.last - piece.first;
    RowPart<T> of_i, of_o, of_f;
    const auto peephole = [&](RowPart<T>& w, int64_t p) {
      return a.has(5) ? w.read(a.in[5], p * s.hidden + piece.first, n) : nullptr;
    };
    const T *const Pi = peephole(of_i, 0), *const Po = peephole(of_o, 1), *const Pf = peephole(of_f, 2);
    struct Gate {
      const Activation& of;
      const T *in, *peephole;
      T* out;
    };
    const Gate gates[] = {{f, i, Pi, i}, {f, fg, Pf, fg}, {g, c, nullptr, c}, {f, o, Po, o}, {h, C, nullptr, yt}};
    for (const Gate& gate : gates) {  // a single loop for all gates, because each may have any activation
      if (gate.in == o)
        for (int64_t k = 0; k < n; ++k) C[k] = fg[k] * C[k] + i[k] * c[k];
      for (int64_t k = 0; k < n; ++k)
        gate.out[k] = gate.of.value(gate.peephole ? gate.in[k] + gate.peephole[k] * C[k] : gate.in[k]);
    }
    for (int64_t k = 0; k < n; ++k) yt[k] *= o[k];
  }
};

template <class T>
Kernel forward(const KernelArgs& a, Carver& c) {
  const Steps s(a.out[0].dims, a.attrs(), a.has(4) ? a.in[4] : Tensor{});
  const int64_t H = s.hidden, B = s.batch;
  const Activation f = read_activation(a.attrs(), 0), g = read_activation(a.attrs(), 1),
                   h = read_activation(a.attrs(), 2);
  const bool usual = f.kind == Activation::sigmoid && g.kind == Activation::tanh && h.kind == Activation::tanh;
  const cpu::RepeatedProduct<T> by_R(c, a.in[1].dtype, 4, H, H, true);
  T* const cells = c.take<T>(B * H);
  char* const states = c.take<char>(2 * B * H * size_of(by_R.left()));  // states before and after the step, alternating
  if (c.measuring()) return {};
  return [=, args = a] {
    by_R.pack(args.in[1].data);
    const auto state = [&](int64_t step) {
      return StoredOut(states + step % 2 * B * H * size_of(by_R.left()), by_R.left());
    };
    start_from(args, 2, by_R.left(), states, B * H);
    start_from(args, 3, DTypeOf<T>::value, cells, B * H);
    const Forward<T> of{args, s, f, g, h, usual && !args.has(5)};
    for (int64_t step = 0; step < s.time; ++step) {
      const int64_t t = s.at(step);
      const Stored before = state(step);
      const StoredOut after = state(step + 1);
      by_R.run(
          before, H, B, step % 2 != 0, false,
          [&](const Piece<T>& piece) {
            simd_wide_for<T>([&]() AMP_INLINE {
              for (int64_t b = piece.begin; b < piece.end; ++b)
                of.cell(t, b, piece, cells + b * H + piece.first, before, after);
            });
          },
          [&](const Piece<T>& piece, cpu::LinePrefetch& ahead) {
            for (const Tensor* x : {&args.in[0], &args.out[3]}) fetch_rows(ahead, *x, t * B, piece, 4);
            for (const Tensor* x : {&args.out[0], &args.out[4]}) fetch_rows(ahead, *x, t * B, piece, 1);
          });
    }
    convert(by_R.left(), state(s.time).data, args.out[1].dtype, args.out[1].data, B * H);
    convert(DTypeOf<T>::value, cells, args.out[2].dtype, args.out[2].data, B * H);
  };
}

// Computes one time step of one sequence in the backward pass, for n hidden units from k0 on. dh and dc are the
// gradients of h and c after this step. cell() replaces dc by the gradient of c before the step.
template <class T>
struct Backward {
  const KernelArgs& a;
  const Steps& s;
  Activation f, g, h;
  bool usual;

  // Computes n cells. into: a second destination for the gradients of the gates, in addition to dxg, or null.
  void cell(int64_t t, int64_t b, int64_t k0, int64_t n, const T* dh, T* dc, T* dP, const StoredOut* into) const {
    const int64_t H = s.hidden, row = t * s.batch + b;
    RowPart<T> gates[4], slopes[4], of_cell, of_before, of_above;
    const T* y[4];
    T* d[4];
    for (int64_t p = 0; p < 4; ++p) d[p] = slopes[p].place(a.out[0], row * 4 * H + p * H + k0);
    if (t >= s.length(b)) {
      for (T* const v : d) std::fill_n(v, n, T(0));
    } else {
      for (int64_t p = 0; p < 4; ++p) y[p] = gates[p].read(a.in[5], row * 4 * H + p * H + k0, n);
      const T* const C = of_cell.read(a.in[6], row * H + k0, n);
      const T* const above = a.has(8) ? of_above.read(a.in[8], row * H + k0, n) : nullptr;
      const int64_t p = s.before(t, b);
      const T* const before = p < 0 ? of_before.read(a.in[2], b * H + k0, n) : of_before.read(a.in[6], p * H + k0, n);
      const T *const i = y[0], *const o = y[1], *const fg = y[2], *const c = y[3];
      T *const di = d[0], *const d_o = d[1], *const df = d[2], *const d_c = d[3];
      if (usual) {
#pragma GCC ivdep
        for (int64_t k = 0; k < n; ++k) {
          const T top = dh[k] + (above ? above[k] : T(0)), hc = math::tanh(C[k]);
          const T dC = dc[k] + top * o[k] * (T(1) - hc * hc);
          d_o[k] = top * hc * (o[k] * (T(1) - o[k]));
          di[k] = dC * c[k] * (i[k] * (T(1) - i[k]));
          df[k] = dC * before[k] * (fg[k] * (T(1) - fg[k]));
          d_c[k] = dC * i[k] * (T(1) - c[k] * c[k]);
          dc[k] = dC * fg[k];
        }
      } else {
        RowPart<T> of_i, of_o, of_f;
        const auto peephole = [&](RowPart<T>& w, int64_t of) {
          return a.has(4) ? w.read(a.in[4], of * H + k0, n) : nullptr;
        };
        const T *const Pi = peephole(of_i, 0), *const Po = peephole(of_o, 1), *const Pf = peephole(of_f, 2);
        for (int64_t k = 0; k < n; ++k) {
          const T top = dh[k] + (above ? above[k] : T(0)), hc = h.value(C[k]);
          d_o[k] = top * hc * f.slope(o[k]);
          T dC = dc[k] + top * o[k] * h.slope(hc);
          if (Po) dC += d_o[k] * Po[k];
          di[k] = dC * c[k] * f.slope(i[k]);
          df[k] = dC * before[k] * f.slope(fg[k]);
          d_c[k] = dC * i[k] * g.slope(c[k]);
          dc[k] = dC * fg[k];
          if (Pi) {
            dc[k] += di[k] * Pi[k] + df[k] * Pf[k];
            dP[k0 + k] += di[k] * before[k];
            dP[H + k0 + k] += d_o[k] * C[k];
            dP[2 * H + k0 + k] += df[k] * before[k];
          }
        }
      }
    }
    for (int64_t p = 0; p < 4; ++p) {
      slopes[p].write(a.out[0], row * 4 * H + p * H + k0, n);
      if (into) convert(DTypeOf<T>::value, d[p], into->dtype, into->at(b * 4 * H + p * H + k0), n);
    }
  }
};

template <class T>
Kernel backward(const KernelArgs& a, Carver& c) {
  const Staged<T> dP = stage<T>(c, a.out[4]);
  const Steps s(a.in[7].dims, a.attrs(), a.has(3) ? a.in[3] : Tensor{});
  const int64_t H = s.hidden, B = s.batch, T_ = s.time;
  const Activation f = read_activation(a.attrs(), 0), g = read_activation(a.attrs(), 1),
                   h = read_activation(a.attrs(), 2);
  const bool usual = f.kind == Activation::sigmoid && g.kind == Activation::tanh && h.kind == Activation::tanh;
  const DType type = DTypeOf<T>::value, y_type = a.in[7].dtype, slopes_type = a.out[0].dtype;
  const cpu::RepeatedProduct<T> by_R(c, a.in[0].dtype, 1, H, 4 * H, false);
  T* const dh = c.take<T>(B * H);
  T* const dc = c.take<T>(B * H);
  char* const before = c.take<char>(T_ * B * H * size_of(y_type));
  const bool in_place = slopes_type == by_R.left();
  const int64_t slopes_bytes = in_place ? 0 : B * 4 * H * size_of(by_R.left());
  char* const slopes = c.take<char>(2 * slopes_bytes);  // slopes of the current and the previous step, alternating
  const StateWeightsGrad of_weights(c, a.out[1].dtype, T_ * B, 4 * H, H, slopes_type, y_type);
  if (c.measuring()) return {};
  return [=, args = a] {
    by_R.pack(args.in[0].data);
    start_from(args, 9, type, dh, B * H);
    start_from(args, 10, type, dc, B * H);
    std::fill_n(dP.data, 3 * H, T(0));
    const Backward<T> of{args, s, f, g, h, usual && !args.has(4)};
    const auto slopes_of = [&](int64_t step) {
      return in_place ? StoredOut(StoredOut(args.out[0]).at(s.at(step) * B * 4 * H), slopes_type)
                      : StoredOut(slopes + step % 2 * slopes_bytes, by_R.left());
    };
    for (int64_t step = T_; step >= 0; --step) {  // the last iteration only computes dh0
      const int64_t t = s.at(step - 1), next = s.at(step);
      const Stored a_next = step == T_ ? Stored() : Stored(slopes_of(step));
      const StoredOut into = step > 0 && !in_place ? slopes_of(step - 1) : StoredOut();
      by_R.run(
          a_next, 4 * H, B, step % 2 != 0, args.has(4),
          [&](const Piece<T>& piece) {
            const int64_t n = piece.last - piece.first;
            simd_wide_for<T>([&]() AMP_INLINE {
              for (int64_t b = piece.begin; b < piece.end; ++b) {
                T* const to = dh + b * H + piece.first;
                if (piece.sums && next < s.length(b)) std::copy_n(piece.at(b, 0), n, to);
                if (step > 0)
                  of.cell(t, b, piece.first, n, to, dc + b * H + piece.first, dP.data, into.data ? &into : nullptr);
              }
            });
          },
          [&](const Piece<T>& piece, cpu::LinePrefetch& ahead) {
            if (step == 0) return;
            for (const Tensor* x : {&args.in[5], &args.out[0]}) fetch_rows(ahead, *x, t * B, piece, 4);
            fetch_rows(ahead, args.in[6], t * B, piece, 1);
            if (step > 1) fetch_rows(ahead, args.in[6], s.at(step - 2) * B, piece, 1);
            if (args.has(8)) fetch_rows(ahead, args.in[8], t * B, piece, 1);
          });
    }
    s.all_before(args.in[7], args.in[1], before);
    of_weights.run(args.out[0].data, 4 * H, before, args.out[1], 0);
    convert(type, dh, args.out[2].dtype, args.out[2].data, B * H);
    convert(type, dc, args.out[3].dtype, args.out[3].data, B * H);
    dP.store();
  };
}

}  // namespace

Kernel lstm(const KernelArgs& a, Carver& c) { return in_double(a) ? forward<double>(a, c) : forward<float>(a, c); }
Kernel lstm_grad(const KernelArgs& a, Carver& c) {
  return in_double(a) ? backward<double>(a, c) : backward<float>(a, c);
}

}  // namespace amp
