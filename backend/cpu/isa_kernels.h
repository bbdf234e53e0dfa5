// The kernels that are written for an instruction set, as a table with one row per instruction set. Each architecture
// has a folder in backend/cpu/isa/ with its rows; the rest of backend/cpu/ is the same for all. A new architecture
// needs a folder there, one in base/isa/, and a row in cmake/architectures.cmake.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace amp::cpu {

struct MicroKernel;
struct DropoutLanes;

// Loops over pairs of bf16 with an instruction that multiplies them; their contract is in gemm/bf16_pairs.h.
struct PairKernels {
  void (*round)(const float* x, int64_t n, BFloat16* to);
  void (*round_pairs)(const float* low, const float* high, int64_t n, float* to);
  void (*correlate)(int64_t width, const float* image, const int64_t* base, const int64_t* offset, int64_t taps,
                    int64_t channels, const float* w, float* sums);
  void (*add_products)(int64_t width, const float* x, const int64_t* base, int64_t pixels, const float* dy,
                       float* sums);
};

// A unit that multiplies tiles of bf16 pairs (AMX). A tile has kTile rows of kTile pairs. Its functions must be called
// between begin() and end() on the same thread (gemm/tile_scope.h).
struct TileUnit {
  static constexpr int64_t kTile = 16;
  static constexpr int64_t kPixels = 32;       // pixels per call of correlate
  static constexpr int64_t kMostPixels = 128;  // maximum number of pixels per call of add_products
  static constexpr int64_t kMostColumns = 64;  // maximum width of a row of w or sums, in 4-byte elements

  const MicroKernel& kernel;
  void (*begin)();  // configures the tiles of the calling thread
  void (*end)();
  // sums[pixel] += sum over taps and `channels` (pairs of channels) of image[base[pixel] + offset[tap] + channel] *
  // w[tap, channel], for 32 pixels. sums and w have rows of `width` 4-byte elements; `width` is a multiple of 16 up to
  // 64.
  void (*correlate)(int64_t width, const float* image, const int64_t* base, const int64_t* offset, int64_t taps,
                    int64_t channels, const float* w, float* sums);
  // sums[row][column] += sum over up to 128 pixels of grads[row, pixel] * x[base[pixel] + column]. An element of grads
  // and x is a pair of bf16. rows and columns are multiples of 16 up to 64; sums has rows of `columns`. grads is stored
  // as [row][16 pixels] for each 16 pixels, with zeros after the last pixel.
  void (*add_products)(int64_t rows, int64_t columns, const float* grads, const float* x, const int64_t* base,
                       int64_t pixels, float* sums);
};

// The kernels of one instruction set. A pointer is null if no kernel is faster than the compiled loop.
struct IsaKernels {
  const MicroKernel& fp32;
  const MicroKernel* bf16 = nullptr;   // multiplies pairs of bf16
  const PairKernels* pairs = nullptr;  // not null if `bf16` is not null
  const TileUnit* tiles = nullptr;
  // Transposes 4-byte elements: to[p * width + l] = from[l][p] for 8 lanes; n is a multiple of 8.
  void (*transpose_8)(const float* const from[8], int64_t n, float* to, int64_t width) = nullptr;
  // Implements DropoutLanes::write() (dropout_lanes.h).
  void (*dropout)(const DropoutLanes& lanes, int64_t groups, float* factor) = nullptr;
  // Run independent chains of `rounds` multiply-adds over registers (gemm/fma_peak.cc) in fp32, or with the fastest
  // bf16 instruction. `flops` receives the number of operations. `out` keeps the compiler from removing the work.
  void (*chains)(int64_t rounds, float factor, volatile float* out, double* flops) = nullptr;
  void (*bf16_chains)(int64_t rounds, float factor, volatile float* out, double* flops) = nullptr;
};

// Returns the row for the running CPU (base/simd.h).
const IsaKernels& isa_kernels();

}  // namespace amp::cpu
