// Detects AMX, the x86-64 tile registers that multiply bf16 matrices.
#pragma once

namespace amp {

// True if the CPU has amx_bf16, the operating system saves its registers, and ONNX_AMP_MAX_ISA (base/simd.h) is not
// set. Requests the permission from Linux once per process.
bool cpu_has_amx();

}  // namespace amp
