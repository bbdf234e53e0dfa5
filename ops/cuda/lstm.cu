// The kernels of LSTM and LSTMGrad (ops/recurrent.cc). The gates i, o, f, c of a sequence at one step are stored in
// this order, with H numbers each. A time step is one matrix product and one elementwise kernel (recurrent.cuh). The
// gradients of weights are computed after the loop, in one product over all steps.
#include "ops/cuda/recurrent.cuh"

namespace amp::cuda {
namespace {

struct Cell {
  Steps s;
  Activation f, g, h;
  const float* P;                      // peephole weights, or null
  float *y, *hs, *cs, *gates, *cells;  // y, gates, cells of step t; hs, cs: the current state
  int64_t t;
  DEV void operator()(int64_t e) const {
    const int64_t H = s.hidden, b = e / H, k = e - b * H;
    float* const i = gates + b * 4 * H + k;
    float c = cs[e];
    if (t >= s.length(b)) {
      for (int64_t q = 0; q < 4; ++q) i[q * H] = 0;
      y[e] = 0;
      cells[e] = c;
      return;
    }
    float *const o = i + H, *const fg = o + H, *const n = fg + H;
    const float in = f.value(*i + (P ? P[k] * c : 0.0f)), keep = f.value(*fg + (P ? P[2 * H + k] * c : 0.0f)),
                fresh = g.value(*n);
    c = keep * c + in * fresh;
    const float out = f.value(*o + (P ? P[H + k] * c : 0.0f)), state = h.value(c) * out;
    *i = in, *o = out, *fg = keep, *n = fresh;
    cs[e] = cells[e] = c;
    hs[e] = y[e] = state;
  }
};

Kernel forward(const KernelArgs& a, Carver& carve) {
  const Operands x(a, carve);
  const Steps s(a.out[0].dims, a.attrs(), optional_input(a, 4));
  const Activation f = read_activation(a, 0), g = read_activation(a, 1), h = read_activation(a, 2);
  if (carve.measuring()) return {};
  CudaDevice& d = device_of(a);
  const int64_t H = s.hidden, n = s.states();
  const MatrixProduct recur = adding(d, s.batch, 4 * H, H, true, H, 4 * H, {0, 0, 4 * n});
  return [=, &d] {
    x.load();
    x.begin(d, 1, 2);
    x.begin(d, 2, 3);
    x.begin(d, 3, 0);
    for (int64_t step = 0; step < s.time; ++step) {
      const int64_t t = s.at(step);
      float* const gates = x.output(3) + t * 4 * n;
      recur(x.output(1), x.input(1), gates);
      for_each(
          d, n,
          Cell{s, f, g, h, x.input(5), x.output(0) + t * n, x.output(1), x.output(2), gates, x.output(4) + t * n, t});
    }
    x.store();
  };
}

// Computes the gradients of step t's pre-activations and updates dc. Prepares dh as the accumulator of the product that
// follows: 0 for sequences that are still active, unchanged for sequences that have ended.
struct CellGrad {
  Steps s;
  Activation f, g, h;
  const float *P, *c0, *gates, *cells, *dy;  // gates and dy of step t; cells of all steps; P and dy may be null
  float *dgates, *dh, *dc;
  int64_t t;
  DEV void operator()(int64_t e) const {
    const int64_t H = s.hidden, b = e / H, k = e - b * H;
    float* const di = dgates + b * 4 * H + k;
    if (t >= s.length(b)) {
      for (int64_t q = 0; q < 4; ++q) di[q * H] = 0;
      return;
    }
    const float* const at = gates + b * 4 * H + k;
    const float i = at[0], o = at[H], fg = at[2 * H], n = at[3 * H], c = cells[t * s.batch * H + e],
                prev = s.before(cells, c0, t, b, k);
    const float top = dh[e] + (dy ? dy[e] : 0.0f), hc = h.value(c), d_o = top * hc * f.slope(o);
    float dC = dc[e] + top * o * h.slope(hc);
    if (P) dC += d_o * P[H + k];
    const float d_i = dC * n * f.slope(i), d_f = dC * prev * f.slope(fg);
    di[0] = d_i;
    di[H] = d_o;
    di[2 * H] = d_f;
    di[3 * H] = dC * i * g.slope(n);
    dc[e] = dC * fg + (P ? d_i * P[k] + d_f * P[2 * H + k] : 0.0f);
    dh[e] = 0;
  }
};

// For the peephole gradient dP (3 * H, for the gates i, o, f): returns what one step of one sequence (a row) adds to
// element `column`.
struct PeepholeGrad {
  Steps s;
  const float *dgates, *cells, *c0;
  DEV float operator()(int64_t row, int64_t column) const {
    const int64_t H = s.hidden, which = column / H, k = column - which * H, t = row / s.batch, b = row - t * s.batch;
    if (t >= s.length(b)) return 0;
    const float up = dgates[row * 4 * H + which * H + k];
    return up * (which == 1 ? cells[row * H + k] : s.before(cells, c0, t, b, k));
  }
};

Kernel backward(const KernelArgs& a, Carver& carve) {
  const Operands x(a, carve);
  const Steps s(a.in[7].dims, a.attrs(), optional_input(a, 3));
  const Activation f = read_activation(a, 0), g = read_activation(a, 1), h = read_activation(a, 2);
  const int64_t H = s.hidden, n = s.states();
  float* const before = carve.take<float>(s.time * n);
  if (carve.measuring()) return {};
  CudaDevice& d = device_of(a);
  const MatrixProduct recur = adding(d, s.batch, H, 4 * H, false, 4 * H, H, {4 * n, 0, 0}),
                      weights = weight_gradient(d, 4 * H, H, s.time * s.batch, 4 * H);
  return [=, &d] {
    x.load();
    x.begin(d, 2, 9);
    x.begin(d, 3, 10);
    for (int64_t step = s.time; step-- > 0;) {
      const int64_t t = s.at(step);
      float* const dgates = x.output(0) + t * 4 * n;
      const float* const dy = x.input(8) ? x.input(8) + t * n : nullptr;
      for_each(d, n,
               CellGrad{s, f, g, h, x.input(4), x.input(2), x.input(5) + t * 4 * n, x.input(6), dy, dgates, x.output(2),
                        x.output(3), t});
      recur(dgates, x.input(0), x.output(2));
    }
    for_each(d, s.time * n, AllBefore{s, x.input(7), x.input(1), before});
    weights(x.output(0), before, x.output(1));
    if (x.input(4))
      column_sums(d, s.time * s.batch, 3 * H, PeepholeGrad{s, x.output(0), x.input(6), x.input(2)}, x.output(4));
    else
      d.fill(x.output(4), 0, x.bytes(4));
    x.store();
  };
}

const RegisterKernel kernels[] = {
    {DeviceKind::cuda, "LSTM", with_workspace<forward>, measure_workspace<forward>},
    {DeviceKind::cuda, "LSTMGrad", with_workspace<backward>, measure_workspace<backward>}};

}  // namespace
}  // namespace amp::cuda
