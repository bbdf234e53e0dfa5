// The innermost loops of matrix products: a small block of C held in registers, operands packed into panels.
//
//   C[rows, columns] (+)= A B     fp32:  A panel [k][rows], B panel [k][width]
//                                 pairs: two consecutive k of bf16 beside each other, [k / 2][rows or width][2],
//                                        which avx512_bf16 multiplies in one instruction
//                                 tiles: the same with k filled up to groups of 32 and, within a group, A by rows:
//                                        [k / 32][rows][32] (AMX)
//
// Sums run over k in order, in fp32 (tiles: group after group). Reference for the scheme: Goto and van de Geijn,
// Anatomy of High-Performance Matrix Multiplication, 2008.
#pragma once

#include <cstdint>
#include <numeric>

namespace amp::cpu {

struct MicroKernel {
  // Steps count elements of 4 bytes, as lda and ldb do: C[rows, one or two vectors] = or += A B, A stored by steps (lda
  // from one to the next) or by rows.
  using Block = void (*)(int64_t steps, const void* a, int64_t lda, const void* b, int64_t ldb, float* c, int64_t ldc,
                         bool add);
  int rows;                          // most rows of a block; a panel of fewer is packed as narrow as it is
  int width;                         // columns of a B panel
  bool pairs;                        // steps count pairs of bf16, not single fp32
  const Block* table;                // by (rows - 1) * 2 + (more than half of the width used)
  const Block* row_table = nullptr;  // the same for A as it is stored, by rows; tiles have no such form
  int group = 1;                     // steps of a group; above 1: tiles

  bool tiles() const { return group > 1; }  // whose blocks run inside an amx::TileScope (amx_tiles.h)

  // Of panels. columns: how many of the panel's are wanted; more may be written, up to width.
  void run(int64_t steps, int used_rows, int columns, const void* a, const void* b, float* c, int64_t ldc,
           bool add) const {
    table[index(used_rows, columns)](steps, a, used_rows, b, width, c, ldc, add);
  }
  // Of rows of A as they are stored, lda apart.
  void run_rows(int64_t steps, int used_rows, int columns, const void* a, int64_t lda, const void* b, float* c,
                int64_t ldc, bool add) const {
    row_table[index(used_rows, columns)](steps, a, lda, b, width, c, ldc, add);
  }
  int index(int used_rows, int columns) const { return (used_rows - 1) * 2 + (columns * 2 > width ? 1 : 0); }
};

// Of rows of fp32 that are read side by side, ld apart, as many as do not push each other out of the first-level cache
// (64 sets of eight lines): rows 4 KiB apart begin in one set.
inline int64_t most_stored_rows(int64_t ld) {
  constexpr int64_t kWay = 4096 / sizeof(float), kWays = 8;
  return kWays * (kWay / std::gcd(ld, kWay));
}

// The best for this CPU (base/simd.h). bf16: both operands are bf16; the answer's `pairs` says whether it takes them as
// they are.
const MicroKernel& micro_kernel(bool bf16);  // of those that take A as it is stored too
const MicroKernel& panel_kernel(bool bf16);  // of all
const MicroKernel& amx_kernel();             // only where cpu_has_amx() (base/amx.h)

}  // namespace amp::cpu
