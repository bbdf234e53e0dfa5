// AMX: tile registers of x86-64 that multiply matrices of bf16.
#pragma once

namespace amp {

// The CPU has amx_bf16, the operating system keeps its registers, and no ONNX_AMP_MAX_ISA (base/simd.h) caps what is
// used. Asks Linux for the permission, once a process.
bool cpu_has_amx();

}  // namespace amp
