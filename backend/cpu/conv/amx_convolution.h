// Convolution sums over pairs of bf16 (bf16_pairs.h) with AMX tiles, inside an amx::TileScope (amx_tiles.h). Pixels may
// be at any address: 16 equally spaced pixels are read in place, other pixels are copied.
#pragma once

#include <cstdint>

namespace amp::amx {

constexpr int64_t kPixels = 32;       // pixels per call of correlate
constexpr int64_t kMostPixels = 128;  // maximum number of pixels per call of add_products
// Maximum width of a row of w or sums, in 4-byte elements.
constexpr int64_t kMostColumns = 64;

// sums[pixel] += sum over taps and `channels` (pairs of channels) of image[base[pixel] + offset[tap] + channel] *
// w[tap, channel], for 32 pixels. sums and w have rows of `width` 4-byte elements; `width` is a multiple of 16 up to
// 64.
void correlate(int64_t width, const float* image, const int64_t* base, const int64_t* offset, int64_t taps,
               int64_t channels, const float* w, float* sums);

// sums[row][column] += sum over up to 128 pixels of grads[row, pixel] * x[base[pixel] + column]. An element of grads
// and x is a pair of bf16. rows and columns are multiples of 16 up to 64; sums has rows of `columns`. grads is stored
// as [row][16 pixels] for each 16 pixels, with zeros after the last pixel.
void add_products(int64_t rows, int64_t columns, const float* grads, const float* x, const int64_t* base,
                  int64_t pixels, float* sums);

}  // namespace amp::amx
