// Measures the peak multiply-add rate of this machine. Times of kernels are compared with it.
#pragma once

namespace amp::cpu {

// Operations per second (a multiplication and an addition count two) of a loop over registers, at the SIMD level in
// use, on `threads` threads at once: the fastest of a few runs of some milliseconds. bf16: products of bfloat16
// pairs (AMX, avx512_bf16); 0 without such an instruction.
double fma_peak(int threads, bool bf16 = false);

}  // namespace amp::cpu
