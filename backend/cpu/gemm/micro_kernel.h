// Micro-kernels of matrix products: a small block of C is kept in registers; operands are packed into panels.
//
//   C[rows, columns] (+)= A B     fp32:  A panel [k][rows], B panel [k][width]
//                                 pairs: adjacent bf16 of two consecutive k, [k / 2][rows or width][2],
//                                        which one instruction multiplies (avx512_bf16, BFDOT)
//                                 tiles: pairs with k padded to groups of 32 and, within a group, A by rows:
//                                        [k / 32][rows][32] (AMX)
//
// Sums run over k in order, in fp32 (tiles: group after group). The scheme follows Goto and van de Geijn, Anatomy
// of High-Performance Matrix Multiplication, 2008.
#pragma once

#include <cstdint>
#include <numeric>

namespace amp::cpu {

struct MicroKernel {
  // Computes C = A B, or C += A B if `add`, for a block of C that is one or two vectors wide. A step is one 4-byte
  // element along k: an fp32 number or a pair of bf16. steps, lda and ldb count 4-byte elements. A is stored step by
  // step (lda: distance of two steps) or row by row (lda: distance of two rows).
  using Block = void (*)(int64_t steps, const void* a, int64_t lda, const void* b, int64_t ldb, float* c, int64_t ldc,
                         bool add);
  int rows;                          // maximal rows of a block; a panel of fewer rows is packed without padding
  int width;                         // columns of a B panel
  bool pairs;                        // a step is a pair of bf16 instead of one fp32 number
  const Block* table;                // the kernels for packed A, by index()
  const Block* row_table = nullptr;  // the kernels for unpacked A, by index(); null for AMX
  int group = 1;                     // the number of steps is padded to a multiple of `group`; above 1 for AMX tiles

  // True if the kernel uses AMX tiles. Such a kernel must be called inside a TileScope (tile_scope.h).
  bool tiles() const { return group > 1; }

  // Multiplies a panel of A by a panel of B. columns: the number of needed columns; up to `width` may be written.
  void run(int64_t steps, int used_rows, int columns, const void* a, const void* b, float* c, int64_t ldc,
           bool add) const {
    table[index(used_rows, columns)](steps, a, used_rows, b, width, c, ldc, add);
  }
  // Multiplies unpacked rows of A, whose starts are lda elements apart, by a panel of B.
  void run_rows(int64_t steps, int used_rows, int columns, const void* a, int64_t lda, const void* b, float* c,
                int64_t ldc, bool add) const {
    row_table[index(used_rows, columns)](steps, a, lda, b, width, c, ldc, add);
  }
  int index(int used_rows, int columns) const { return (used_rows - 1) * 2 + (columns * 2 > width ? 1 : 0); }
};

// Returns how many fp32 rows, ld elements apart, can be read side by side without evicting each other from the
// first-level cache (64 sets of eight cache lines). Rows 4 KiB apart map to the same set.
inline int64_t most_stored_rows(int64_t ld) {
  constexpr int64_t kWay = 4096 / sizeof(float), kWays = 8;
  return kWays * (kWay / std::gcd(ld, kWay));
}

// Return the fastest kernel for this CPU (base/simd.h). bf16: both operands are bf16. `pairs` of the result is set if
// the kernel multiplies bf16 without converting it to fp32.
const MicroKernel& micro_kernel(bool bf16);  // considers only kernels that accept an unpacked A
const MicroKernel& panel_kernel(bool bf16);  // considers all kernels

}  // namespace amp::cpu
