// Micro-kernels of matrix products: a small block of C is kept in registers; operands are packed into panels.
//
//   C[rows, columns] (+)= A B     fp32:  A panel [k][rows], B panel [k][width]
//                                 pairs: adjacent bf16 of two consecutive k, [k / 2][rows or width][2],
//                                        which avx512_bf16 multiplies in one instruction
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
  // C[rows, one or two vectors] = or += A B. Steps, lda and ldb count 4-byte elements. A is stored by steps (lda
  // from one step to the next) or by rows.
  using Block = void (*)(int64_t steps, const void* a, int64_t lda, const void* b, int64_t ldb, float* c, int64_t ldc,
                         bool add);
  int rows;                          // maximal rows of a block; a panel of fewer rows is packed without padding
  int width;                         // columns of a B panel
  bool pairs;                        // steps count pairs of bf16 instead of single fp32 numbers
  const Block* table;                // index: (rows - 1) * 2 + (more than half of the width used)
  const Block* row_table = nullptr;  // for unpacked A, by rows; tiles have none
  int group = 1;                     // steps of a group; above 1: AMX tiles

  bool tiles() const { return group > 1; }  // such blocks run inside an amx::TileScope (amx_tiles.h)

  // Multiplies panels. columns: how many of the panel's columns are needed; more may be written, up to width.
  void run(int64_t steps, int used_rows, int columns, const void* a, const void* b, float* c, int64_t ldc,
           bool add) const {
    table[index(used_rows, columns)](steps, a, used_rows, b, width, c, ldc, add);
  }
  // Multiplies unpacked rows of A, lda apart.
  void run_rows(int64_t steps, int used_rows, int columns, const void* a, int64_t lda, const void* b, float* c,
                int64_t ldc, bool add) const {
    row_table[index(used_rows, columns)](steps, a, lda, b, width, c, ldc, add);
  }
  int index(int used_rows, int columns) const { return (used_rows - 1) * 2 + (columns * 2 > width ? 1 : 0); }
};

// The number of fp32 rows, ld apart, that can be read in parallel without evicting each other from the first-level
// cache (64 sets of eight lines). Rows 4 KiB apart map to the same set.
inline int64_t most_stored_rows(int64_t ld) {
  constexpr int64_t kWay = 4096 / sizeof(float), kWays = 8;
  return kWays * (kWay / std::gcd(ld, kWay));
}

// The best kernel for this CPU (base/simd.h). bf16: both operands are bf16. The result's `pairs` is set if it
// multiplies them directly.
const MicroKernel& micro_kernel(bool bf16);  // the best one that also accepts unpacked A
const MicroKernel& panel_kernel(bool bf16);  // the best of all
const MicroKernel& amx_kernel();             // requires cpu_has_amx() (base/amx.h)

}  // namespace amp::cpu
