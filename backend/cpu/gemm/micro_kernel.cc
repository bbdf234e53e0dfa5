// Chooses the micro-kernel: that of the instruction set in use (isa_kernels.h).
#include "backend/cpu/gemm/micro_kernel.h"

#include "backend/cpu/isa_kernels.h"

namespace amp::cpu {

const MicroKernel& micro_kernel(bool bf16) {
  const IsaKernels& isa = isa_kernels();
  return bf16 && isa.bf16 ? *isa.bf16 : isa.fp32;
}

const MicroKernel& panel_kernel(bool bf16) {
  const TileUnit* const tiles = isa_kernels().tiles;
  return bf16 && tiles ? tiles->kernel : micro_kernel(bf16);
}

}  // namespace amp::cpu
