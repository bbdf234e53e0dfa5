// The rows of x86-64: the levels v2, v3 and v4, and v4 with AVX512_BF16 and with AMX.
#include "backend/cpu/isa/x86/kernels.h"

#include "backend/cpu/gemm/micro_kernel.h"
#include "base/isa/x86/amx.h"
#include "base/simd.h"

namespace amp::cpu {

namespace {
IsaKernels choose() {
  using namespace x86;
  if (cpu_isa() == Isa::v2) return {.fp32 = kSse};
  if (cpu_isa() == Isa::v3) return {.fp32 = kAvx2, .transpose_8 = transpose_8, .dropout = dropout_avx2};
  IsaKernels row{.fp32 = kAvx512, .transpose_8 = transpose_8, .dropout = dropout_avx512, .chains = avx512_chains};
  if (cpu_has_avx512_bf16()) row.bf16 = &kAvx512Bf16, row.pairs = &kPairs, row.bf16_chains = avx512_bf16_chains;
  if (cpu_has_amx()) row.tiles = &kTiles, row.bf16_chains = amx_chains;
  return row;
}
}  // namespace

const IsaKernels& isa_kernels() {
  static const IsaKernels row = choose();
  return row;
}

}  // namespace amp::cpu
