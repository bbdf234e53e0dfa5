// Measures the peak multiply-add rate of this machine. Kernel times are compared with this rate.
#pragma once

namespace amp::cpu {

// Returns the operations per second (a multiplication and an addition count two) of a loop over registers, at the SIMD
// level in use, on `threads` threads at once. The result is the fastest of a few runs of some milliseconds. bf16:
// measures products of bfloat16 pairs (AMX, avx512_bf16) instead; returns 0 if the CPU has no such instruction.
double fma_peak(int threads, bool bf16 = false);

}  // namespace amp::cpu
