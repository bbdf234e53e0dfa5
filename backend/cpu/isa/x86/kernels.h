// The kernels of x86-64 from which the rows in kernels.cc are made. A function is compiled for the instruction set that
// its name ends or begins with.
#pragma once

#include "backend/cpu/isa_kernels.h"

namespace amp::cpu::x86 {

extern const MicroKernel kSse, kAvx2, kAvx512, kAvx512Bf16;
extern const PairKernels kPairs;  // compiled for AVX512_BF16
extern const TileUnit kTiles;     // compiled for AMX

void transpose_8(const float* const from[8], int64_t n, float* to, int64_t width);  // compiled for AVX2
void dropout_avx2(const DropoutLanes& d, int64_t groups, float* factor);
void dropout_avx512(const DropoutLanes& d, int64_t groups, float* factor);
void avx512_chains(int64_t rounds, float factor, volatile float* out, double* flops);
void avx512_bf16_chains(int64_t rounds, float factor, volatile float* out, double* flops);
void amx_chains(int64_t rounds, float factor, volatile float* out, double* flops);

}  // namespace amp::cpu::x86
