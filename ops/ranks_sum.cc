// RanksSum(x) -> y sums x over the ranks of a run (backend/device_communicator.h). It is the identity for one rank, or
// if the run has no communicator. Sums are fp32 or fp64; 16-bit values are converted to fp32. All ranks compute the
// same nodes in the same order. The gradient is the sum of the ranks' gradients, because y contributes to the losses of
// all ranks.
#include "backend/device_communicator.h"
#include "graph/autodiff.h"
#include "ops/elementwise_op.h"

namespace amp {
namespace {

void infer(InferCtx& c) { c.out(is_low(c.in(0).dtype) ? DType::f32 : c.in(0).dtype, c.in(0).dims); }
void grad(GradBuilder& g) { g.add_grad(0, g.op("RanksSum", {g.dy(0)})); }

Kernel kernel(const KernelArgs& a) {
  const Tensor x = a.in[0], y = a.out[0];
  return [x, y, ranks = a.ranks] {
    convert(x.dtype, x.data, y.dtype, y.data, y.numel());
    if (ranks && *ranks) (*ranks)->sum({y});
  };
}

OpDef def() {
  OpDef d;
  d.name = "RanksSum";
  d.infer = infer;
  d.gradient = grad;
  d.effect = Effect::communicates;
  return d;
}
const RegisterOp op{def()};
const RegisterKernel cpu{DeviceKind::cpu, "RanksSum", kernel};

}  // namespace
}  // namespace amp
