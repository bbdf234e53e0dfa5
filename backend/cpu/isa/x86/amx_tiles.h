// Products of bf16 in AMX tiles. A tile has 16 rows of 64 bytes; an instruction multiplies two tiles (Intel 64 and
// IA-32 Architectures Software Developer's Manual, TDPBF16PS). A tile of A has 16 rows and a group of 16 pairs along
// the depth; a tile of B has 16 pairs and 16 columns. The products of a group are summed in fp32 before they are added
// to C, even and odd products separately. Subnormal numbers count as zeros. Requires cpu_has_amx()
// (base/isa/x86/amx.h).
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "backend/cpu/isa_kernels.h"

namespace amp::amx {

constexpr int64_t kTile = cpu::TileUnit::kTile;  // rows of a tile, and 4-byte elements per row

// Operand of LDTILECFG: all eight tiles have 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
inline constexpr TileConfig kConfig;

[[gnu::target("amx-tile")]] inline void begin() { _tile_loadconfig(&kConfig); }
[[gnu::target("amx-tile")]] inline void end() { _tile_release(); }

// Regularly spaced tiles of an operand. Distances in bytes: `row` between rows, `group` between groups of the
// depth, `next` between neighboring tiles across the depth.
struct Regular {
  const char* first;
  int64_t row, group, next;

  const char* at(int64_t t, int64_t g) const { return first + t * next + g * group; }
  int64_t row_bytes(int64_t, int64_t) const { return row; }
};

// Computes C[16 T, 16 V] = A B, or C += A B if `add`, over `groups` groups of the depth; T and V are 1 or 2. c_row:
// bytes between C's rows. Tiles 0 to 3 hold C, 4 and 5 hold A, 6 and 7 hold B.
template <int T, int V, class A, class B>
[[gnu::target("amx-tile,amx-bf16")]] void multiply(int64_t groups, const A& a, const B& b, float* c, int64_t c_row,
                                                   bool add) {
  char* const right = reinterpret_cast<char*>(c + kTile);
  char* const below = reinterpret_cast<char*>(c) + kTile * c_row;
  char* const across = below + sizeof(float) * kTile;
  asm volatile("" ::: "memory");  // the compiler does not track that tiles are loaded from memory
  if (add) {
    _tile_loadd(0, c, c_row);
    if constexpr (V > 1) _tile_loadd(1, right, c_row);
    if constexpr (T > 1) _tile_loadd(2, below, c_row);
    if constexpr (T > 1 && V > 1) _tile_loadd(3, across, c_row);
  } else {
    _tile_zero(0);
    if constexpr (V > 1) _tile_zero(1);
    if constexpr (T > 1) _tile_zero(2);
    if constexpr (T > 1 && V > 1) _tile_zero(3);
  }
  for (int64_t g = 0; g < groups; ++g) {
    _tile_loadd(4, a.at(0, g), a.row_bytes(0, g));
    _tile_loadd(6, b.at(0, g), b.row_bytes(0, g));
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (V > 1) {
      _tile_loadd(7, b.at(1, g), b.row_bytes(1, g));
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (T > 1) {
      _tile_loadd(5, a.at(1, g), a.row_bytes(1, g));
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (V > 1) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, c, c_row);
  if constexpr (V > 1) _tile_stored(1, right, c_row);
  if constexpr (T > 1) _tile_stored(2, below, c_row);
  if constexpr (T > 1 && V > 1) _tile_stored(3, across, c_row);
  asm volatile("" ::: "memory");
}

}  // namespace amp::amx
