// The kernels of GRU and GRUGrad (ops/recurrent.cc). The gates z, r, n of a sequence at one step are stored in this
// order, with H numbers each.
//   z = f(xz + h Rz^T), r = f(xr + h Rr^T), h' = (1 - z) n + z h
//   n = g(xn + (r h) Rn^T) with the reset gate before the product
//   n = g(xn + r hn), hn = h Rn^T + rb with the reset gate after the product (`after`)
// CudaDevice::gemm() computes the products. The elementwise kernels between the products are in this file;
// recurrent.cuh has what they share with LSTM and RNN.
#include <numeric>

#include "ops/cuda/recurrent.cuh"

namespace amp::cuda {
namespace {

// Sets every row of hn to rb.
struct Rows {
  const float* from;
  float* to;
  int64_t columns;
  DEV void operator()(int64_t i) const { to[i] = from[i % columns]; }
};

// Activates z and r and computes r h, the operand of the second product, in hn. Used if the reset gate is before the
// product.
struct Reset {
  Activation f;
  int64_t hidden;
  const float* hs;
  float *gates, *hn;
  DEV void operator()(int64_t e) const {
    const int64_t b = e / hidden;
    float* const z = gates + b * 3 * hidden + (e - b * hidden);
    z[0] = f.value(z[0]);
    const float r = f.value(z[hidden]);
    z[hidden] = r;
    hn[e] = r * hs[e];
  }
};

struct Cell {
  Steps s;
  Activation f, g;
  bool after;  // the reset gate is after the product, so z and r are not yet activated
  const float* hn;
  float *y, *hs, *gates;
  int64_t t;
  DEV void operator()(int64_t e) const {
    const int64_t H = s.hidden, b = e / H;
    float* const at = gates + b * 3 * H + (e - b * H);
    const float z = after ? f.value(at[0]) : at[0], r = after ? f.value(at[H]) : at[H];
    at[0] = z;
    at[H] = r;
    if (t >= s.length(b)) {
      y[e] = 0;
      return;
    }
    const float n = g.value(after ? at[2 * H] + r * hn[e] : at[2 * H]);
    at[2 * H] = n;
    hs[e] = y[e] = (1 - z) * n + z * hs[e];
  }
};

Kernel forward(const KernelArgs& a, Carver& carve) {
  const Operands x(a, carve);
  const Steps s(a.out[0].dims, a.attrs(), optional_input(a, 3));
  const Activation f = read_activation(a, 0), g = read_activation(a, 1);
  if (carve.measuring()) return {};
  CudaDevice& d = device_of(a);
  const bool after = a.has(4);
  const int64_t H = s.hidden, n = s.states();
  const MatrixProduct gates_of = adding(d, s.batch, 2 * H, H, true, H, 3 * H, {0, 0, 3 * n});
  const MatrixProduct new_of = after ? adding(d, s.batch, H, H, true, H, H, {0, 2 * H * H, n})
                                     : adding(d, s.batch, H, H, true, H, 3 * H, {n, 2 * H * H, std::gcd(3 * n, 2 * H)});
  return [=, &d] {
    x.load();
    x.begin(d, 1, 2);
    x.begin(d, 2, 0);
    const float *R = x.input(1), *Rn = R + 2 * H * H;
    float* const hs = x.output(1);
    if (after) for_each(d, s.time * n, Rows{x.input(4), x.output(3), H});
    for (int64_t step = 0; step < s.time; ++step) {
      const int64_t t = s.at(step);
      float *const gates = x.output(2) + t * 3 * n, *const hn = x.output(3) + t * n;
      gates_of(hs, R, gates);
      if (after) {
        new_of(hs, Rn, hn);
      } else {
        for_each(d, n, Reset{f, H, hs, gates, hn});
        new_of(hn, Rn, gates + 2 * H);
      }
      for_each(d, n, Cell{s, f, g, after, hn, x.output(0) + t * n, hs, gates, t});
    }
    x.store();
  };
}

struct CellGrad {
  Steps s;
  Activation f, g;
  bool after;
  const float *gates, *hn, *before, *dy;  // tensors of step t; before: the state before the step; dy may be null
  // dRn = left^T right. The product left Rn is the gradient of the operand that Rn multiplies.
  float *dgates, *left, *right, *dh;
  int64_t t;
  DEV void operator()(int64_t e) const {
    const int64_t H = s.hidden, b = e / H, k = e - b * H;
    const float* const at = gates + b * 3 * H + k;
    float* const out = dgates + b * 3 * H + k;
    const float z = at[0], r = at[H], n = at[2 * H], hp = before[e];
    const bool active = t < s.length(b);
    const float top = active ? dh[e] + (dy ? dy[e] : 0.0f) : 0.0f, dn = top * (1 - z) * g.slope(n);
    out[0] = top * (hp - n) * f.slope(z);
    out[H] = after ? dn * hn[e] * f.slope(r) : 0.0f;
    out[2 * H] = dn;
    left[e] = after ? dn * r : dn;
    right[e] = after ? hp : r * hp;
    if (active) dh[e] = top * z;
  }
};

// Computes dr and a part of dh from dreset, the gradient of r h. Used if the reset gate is before the product.
struct ResetGrad {
  Activation f;
  int64_t hidden;
  const float *gates, *before, *dreset;
  float *dgates, *dh;
  DEV void operator()(int64_t e) const {
    const int64_t b = e / hidden, at = b * 3 * hidden + hidden + (e - b * hidden);
    const float r = gates[at];
    dgates[at] = dreset[e] * before[e] * f.slope(r);
    dh[e] += dreset[e] * r;
  }
};

struct Elements {
  const float* x;
  int64_t columns;
  DEV float operator()(int64_t row, int64_t column) const { return x[row * columns + column]; }
};

Kernel backward(const KernelArgs& a, Carver& carve) {
  const Operands x(a, carve);
  const Steps s(a.in[6].dims, a.attrs(), optional_input(a, 2));
  const Activation f = read_activation(a, 0), g = read_activation(a, 1);
  const int64_t H = s.hidden, n = s.states();
  const bool after = a.has(3);
  float* const reset = after ? nullptr : carve.take<float>(n);
  float* const before = carve.take<float>(s.time * n);
  float* const lefts = carve.take<float>(s.time * n);
  float* const rights = carve.take<float>(s.time * n);
  if (carve.measuring()) return {};
  CudaDevice& d = device_of(a);
  Gemm through = moving({s.batch, H, H}, {n, 2 * H * H, 0});
  through.beta = after ? 1 : 0;
  const MatrixProduct new_of = product(d, through),
                      gates_of = adding(d, s.batch, H, 2 * H, false, 3 * H, H, {3 * n, 0, 0});
  const MatrixProduct gate_weights = weight_gradient(d, 2 * H, H, s.time * s.batch, 3 * H),
                      new_weights = weight_gradient(d, H, H, s.time * s.batch, H, {0, 0, 2 * H * H});
  return [=, &d] {
    x.load();
    x.begin(d, 2, 8);
    const float *R = x.input(0), *Rn = R + 2 * H * H;
    float* const dh = x.output(2);
    for_each(d, s.time * n, AllBefore{s, x.input(6), x.input(1), before});
    for (int64_t step = s.time; step-- > 0;) {
      const int64_t t = s.at(step);
      const float *const gates = x.input(4) + t * 3 * n, *const hp = before + t * n,
                         *const dy = x.input(7) ? x.input(7) + t * n : nullptr;
      float *const dgates = x.output(0) + t * 3 * n, *const left = lefts + t * n;
      for_each(d, n, CellGrad{s, f, g, after, gates, x.input(5) + t * n, hp, dy, dgates, left, rights + t * n, dh, t});
      new_of(left, Rn, after ? dh : reset);
      if (!after) for_each(d, n, ResetGrad{f, H, gates, hp, reset, dgates, dh});
      gates_of(dgates, R, dh);
    }
    gate_weights(x.output(0), before, x.output(1));
    new_weights(lefts, rights, x.output(1) + 2 * H * H);
    if (after)
      column_sums(d, s.time * s.batch, H, Elements{lefts, H}, x.output(3));
    else
      d.fill(x.output(3), 0, x.bytes(3));
    x.store();
  };
}

const RegisterKernel kernels[] = {{DeviceKind::cuda, "GRU", with_workspace<forward>, measure_workspace<forward>},
                                  {DeviceKind::cuda, "GRUGrad", with_workspace<backward>, measure_workspace<backward>}};

}  // namespace
}  // namespace amp::cuda
