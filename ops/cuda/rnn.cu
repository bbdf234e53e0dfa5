// The kernels of RNN and RNNGrad (ops/recurrent.cc): h' = f(xg + h R^T). A time step is one matrix product and one
// elementwise kernel (recurrent.cuh). dR is computed after the loop, in one product over all steps.
#include "ops/cuda/recurrent.cuh"

namespace amp::cuda {
namespace {

struct Cell {
  Steps s;
  Activation f;
  float *y, *hs;  // y of step t; hs: the current state
  int64_t t;
  DEV void operator()(int64_t e) const {
    if (t >= s.length(e / s.hidden)) {
      y[e] = 0;
    } else {
      hs[e] = y[e] = f.value(y[e]);
    }
  }
};

Kernel forward(const KernelArgs& a, Carver& carve) {
  const Operands x(a, carve);
  const Steps s(a.out[0].dims, a.attrs(), optional_input(a, 3));
  const Activation f = read_activation(a, 0);
  if (carve.measuring()) return {};
  CudaDevice& d = device_of(a);
  const int64_t H = s.hidden, n = s.states();
  const MatrixProduct recur = adding(d, s.batch, H, H, true, H, H, {0, 0, n});
  return [=, &d] {
    x.load();
    x.begin(d, 1, 2);
    x.begin(d, 0, 0);
    for (int64_t step = 0; step < s.time; ++step) {
      const int64_t t = s.at(step);
      float* const y = x.output(0) + t * n;
      recur(x.output(1), x.input(1), y);
      for_each(d, n, Cell{s, f, y, x.output(1), t});
    }
    x.store();
  };
}

// Computes dxg, the gradient of the pre-activation, at step t. Sets dh to 0 for the product that adds to it next.
struct CellGrad {
  Steps s;
  Activation f;
  const float *y, *dy;  // tensors of step t; dy may be null
  float *dxg, *dh;
  int64_t t;
  DEV void operator()(int64_t e) const {
    const bool active = t < s.length(e / s.hidden);
    dxg[e] = active ? (dh[e] + (dy ? dy[e] : 0.0f)) * f.slope(y[e]) : 0.0f;
    if (active) dh[e] = 0;
  }
};

Kernel backward(const KernelArgs& a, Carver& carve) {
  const Operands x(a, carve);
  const Steps s(a.in[3].dims, a.attrs(), optional_input(a, 2));
  const Activation f = read_activation(a, 0);
  const int64_t H = s.hidden, n = s.states();
  float* const before = carve.take<float>(s.time * n);
  if (carve.measuring()) return {};
  CudaDevice& d = device_of(a);
  const MatrixProduct recur = adding(d, s.batch, H, H, false, H, H, {n, 0, 0}),
                      weights = weight_gradient(d, H, H, s.time * s.batch, H);
  return [=, &d] {
    x.load();
    x.begin(d, 2, 5);
    for (int64_t step = s.time; step-- > 0;) {
      const int64_t t = s.at(step);
      float* const dxg = x.output(0) + t * n;
      for_each(d, n,
               CellGrad{s, f, x.input(3) + t * n, x.input(4) ? x.input(4) + t * n : nullptr, dxg, x.output(2), t});
      recur(dxg, x.input(0), x.output(2));
    }
    for_each(d, s.time * n, AllBefore{s, x.input(3), x.input(1), before});
    weights(x.output(0), before, x.output(1));
    x.store();
  };
}

const RegisterKernel kernels[] = {{DeviceKind::cuda, "RNN", with_workspace<forward>, measure_workspace<forward>},
                                  {DeviceKind::cuda, "RNNGrad", with_workspace<backward>, measure_workspace<backward>}};

}  // namespace
}  // namespace amp::cuda
