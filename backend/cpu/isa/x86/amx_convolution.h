// Convolution sums over pairs of bf16 (bf16_pairs.h) with AMX tiles, as cpu::TileUnit (isa_kernels.h) describes them.
// Pixels may be at any address: 16 equally spaced pixels are read in place, other pixels are copied.
#pragma once

#include <cstdint>

namespace amp::amx {

void correlate(int64_t width, const float* image, const int64_t* base, const int64_t* offset, int64_t taps,
               int64_t channels, const float* w, float* sums);
void add_products(int64_t rows, int64_t columns, const float* grads, const float* x, const int64_t* base,
                  int64_t pixels, float* sums);

}  // namespace amp::amx
