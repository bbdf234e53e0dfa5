// The rows of the table of kernels for 64-bit ARM: NEON, and NEON with FEAT_BF16.
#include "backend/cpu/isa/arm/kernels.h"

#include "backend/cpu/gemm/micro_kernel.h"
#include "base/simd.h"

namespace amp::cpu {

namespace {
IsaKernels choose() {
  using namespace arm;
  IsaKernels row{.fp32 = kNeon, .transpose_8 = transpose_8, .dropout = dropout, .chains = neon_chains};
  if (cpu_isa() == Isa::bf16) row.bf16 = &kBfdot, row.pairs = &kPairs, row.bf16_chains = bfdot_chains;
  return row;
}
}  // namespace

const IsaKernels& isa_kernels() {
  static const IsaKernels row = choose();
  return row;
}

}  // namespace amp::cpu
