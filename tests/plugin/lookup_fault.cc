// ops/cuda/matmul_gelu.cu with a planted fault: the kernel looks up the operators of its inner nodes in a table. In
// test_cuda this is the program's table, so nothing fails. A plugin's table is empty.
#include "ops/inner_node.h"

namespace amp {

static Kernel looked_up_node(const KernelArgs& outer, Carver& carver, DeviceKind kind, const char* op,
                             const Attrs& attrs, std::vector<Tensor> in, std::vector<Tensor> out) {
  return inner_node(outer, carver, kind, core_op(op).name.c_str(), attrs, std::move(in), std::move(out));
}

}  // namespace amp

#define inner_node looked_up_node
#include "ops/cuda/matmul_gelu.cu"
