// The kernel of RanksSum (ops/ranks_sum.cc): an all-reduce by NCCL on the device's stream, so that it becomes part of
// the recorded CUDA graph.
#include "backend/cuda/device.h"
#include "backend/device_communicator.h"

namespace amp::cuda {
namespace {

Kernel ranks_sum(const KernelArgs& a) {
  if (a.out[0].dtype == DType::f64) no_fp64(a);
  CudaDevice& d = device_of(a);
  return [copy = d.convert(a.in[0], a.out[0]), y = a.out[0], ranks = a.ranks] {
    copy();
    if (ranks && *ranks) (*ranks)->sum({y});
  };
}

const RegisterKernel kernel{DeviceKind::cuda, "RanksSum", ranks_sum};

}  // namespace
}  // namespace amp::cuda
