// The kernel of DequantizeMatrix (ops/dequantize_matrix.cc). Each thread computes one element of the weight. The weight
// stays in memory only until the product that reads it has run (ops/passes/repeat_nodes.h).
#include "backend/cuda/launch.cuh"
#include "backend/cuda/ref.cuh"
#include "backend/quantized_matrix.h"

namespace amp::cuda {
namespace {

struct DequantizeMatrix {
  QuantizedMatrix m;
  Ref scales, zeros, y;
  DEV void operator()(int64_t i) const {
    const int64_t r = i / m.columns, c = i % m.columns, at = m.scale_index(r, c);
    float zero = static_cast<float>(m.zero);
    if (zeros) zero = m.zero_bits != 0 ? static_cast<float>(packed_zero(m, r, c)) : load<float>(zeros, at);
    store(y, i, dequantized(m, quantized_integer(m, r, c), load<float>(scales, at), zero));
  }
};

Kernel dequantize_matrix(const KernelArgs& a) {
  if (in_double(a)) no_fp64(a);
  const DequantizeMatrix body{quantized_matrix(a), a.in[1], a.has(2) ? Ref(a.in[2]) : Ref(), a.out[0]};
  return [&d = device_of(a), body] { for_each(d, body.m.rows * body.m.columns, body); };
}

const RegisterKernel kernels{DeviceKind::cuda, "DequantizeMatrix", dequantize_matrix};

}  // namespace
}  // namespace amp::cuda
