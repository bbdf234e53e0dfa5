// The innermost loops of matrix products: a small block of C held in registers, operands packed into panels.
//
//   C[rows, columns] (+)= A B     A panel: [k][rows], B panel: [k][width], fp32; or, in `pairs` form, bf16 with two
//   consecutive k
//                                 beside each other, [k / 2][rows or width][2], which avx512_bf16 multiplies in one
//                                 instruction
//
// Sums run over k in order, in fp32. Reference for the scheme: Goto and van de Geijn, Anatomy of High-Performance
// Matrix Multiplication, 2008.
#pragma once

#include <cstdint>

namespace amp::cpu {

struct MicroKernel {
  using Block = void (*)(int64_t steps, const void* a, const void* b, float* c, int64_t ldc, bool add);
  int rows;            // most rows of a block; a panel of fewer is packed as narrow as it is
  int width;           // columns of a B panel
  bool pairs;          // steps count pairs of bf16, not single fp32
  const Block* table;  // by (rows - 1) * 2 + (more than half of the width used)

  // columns: how many of the panel's are wanted; more may be written, up to width.
  void run(int64_t steps, int used_rows, int columns, const void* a, const void* b, float* c, int64_t ldc,
           bool add) const {
    table[(used_rows - 1) * 2 + (columns * 2 > width ? 1 : 0)](steps, a, b, c, ldc, add);
  }
};

// The best for this CPU (base/simd.h). bf16: both operands are bf16; the answer's `pairs` says whether it takes them as
// they are.
const MicroKernel& micro_kernel(bool bf16);

}  // namespace amp::cpu
