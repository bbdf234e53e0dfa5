// Declares the kernels of 64-bit ARM, from which kernels.cc makes its rows of the table of kernels.
#pragma once

#include "backend/cpu/isa_kernels.h"

namespace amp::cpu::arm {

extern const MicroKernel kNeon, kBfdot;
extern const PairKernels kPairs;  // compiled for FEAT_BF16

void transpose_8(const float* const from[8], int64_t n, float* to, int64_t width);
void dropout(const DropoutLanes& d, int64_t groups, float* factor);
void neon_chains(int64_t rounds, float factor, volatile float* out, double* flops);
void bfdot_chains(int64_t rounds, float factor, volatile float* out, double* flops);

}  // namespace amp::cpu::arm
