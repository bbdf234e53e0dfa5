// What this machine's multiply-add units do at most, measured: the yardstick of the times of kernels.
#pragma once

namespace amp::cpu {

// Operations a second (multiplication and addition are two) of a loop over registers alone, at the level of SIMD in
// use, on so many threads at once: the fastest of a few runs of some milliseconds. bf16: of products of pairs of
// bfloat16 (AMX, avx512_bf16); 0 where there is no such instruction.
double fma_peak(int threads, bool bf16 = false);

}  // namespace amp::cpu
