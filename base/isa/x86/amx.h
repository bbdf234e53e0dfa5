// Detects the x86-64 instructions that multiply bf16: AVX512_BF16, and AMX, whose registers are tiles.
#pragma once

namespace amp {

bool cpu_has_avx512_bf16();  // true only if ONNX_AMP_MAX_ISA (base/simd.h) allows AVX-512 too
// Returns true if the CPU has amx_bf16, the operating system saves the tile registers, and ONNX_AMP_MAX_ISA is not set.
// Requests Linux's permission to use AMX once per process.
bool cpu_has_amx();

}  // namespace amp
