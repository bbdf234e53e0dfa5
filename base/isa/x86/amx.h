// Instructions of x86-64 that multiply bf16, beside the levels: AVX512_BF16, and AMX, whose registers are tiles.
#pragma once

namespace amp {

bool cpu_has_avx512_bf16();  // and ONNX_AMP_MAX_ISA (base/simd.h) allows AVX-512
// True if the CPU has amx_bf16, the operating system saves its registers, and ONNX_AMP_MAX_ISA is not set. Requests the
// permission from Linux once per process.
bool cpu_has_amx();

}  // namespace amp
