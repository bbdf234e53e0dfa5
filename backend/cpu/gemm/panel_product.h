// Products of small matrices on the calling thread, for kernels whose operands are in cache. The right-hand side is
// packed once and used many times; the left-hand side is read in place.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/gemm/line_prefetch.h"
#include "backend/cpu/gemm/micro_kernel.h"
#include "backend/cpu/gemm/pack.h"

namespace amp::cpu {

// Returns scratch memory of the calling thread for rows that PanelProduct::ready() copies, 64-byte aligned. Each call
// reuses the memory.
float* tile_scratch(int64_t floats);

class PanelProduct {
 public:
  // t: type of the operands. bf16 is multiplied as pairs if the CPU supports it; other types are multiplied in fp32.
  explicit PanelProduct(DType t) : kernel_(panel_kernel(t == DType::bf16)) {}

  bool pairs() const { return kernel_.pairs; }
  int64_t steps(int64_t depth) const { return pairs() ? (depth + 1) / 2 : depth; }
  // Returns the number of columns that are computed: whole panels.
  int64_t padded(int64_t columns) const { return (columns + kernel_.width - 1) / kernel_.width * kernel_.width; }
  int64_t panel_floats(int64_t columns, int64_t depth) const { return padded(columns) * layout().steps(depth); }

  struct Right {
    const float* panels;
    int64_t steps;  // steps along the depth of the whole packed matrix
    int64_t lane;   // number of floats of one column within its panel
  };
  Right pack(const PackSource& b, int64_t columns, int64_t depth, float* panels) const;

  // The left operand: 4-byte elements, fp32 or pairs along the depth. Element (row, step) is at row * ld + step if
  // by_rows, otherwise at step * ld + row. If `packed`, the operand is an output of ready(), or its rows from a
  // multiple of 32 on.
  struct Left {
    const void* data;
    int64_t ld;
    bool by_rows;
    bool packed = false;
    Left from_row(int64_t r) const {
      return {static_cast<const float*>(data) + (by_rows ? r * ld : r), ld, by_rows, packed};
    }
  };
  // Prepares rows for many products: with AMX they are copied in tile order to `to` (ready_floats(), 64-byte aligned),
  // otherwise they are used in place. Requires a.by_rows.
  int64_t ready_floats(int64_t rows, int64_t steps) const;
  Left ready(const Left& a, int64_t rows, int64_t steps, float* to) const;
  // A part of the product: steps [s0, s1) of B and its columns [j0, j1). s0 is the first step of A and a multiple of
  // 16; s1 is the end of B or a multiple of 16; j0 is the first column of a panel.
  struct Part {
    int64_t s0, s1, j0, j1;
  };
  // Computes c = a b, or c += a b if `add`; c is (rows, padded(j1 - j0)). Meanwhile calls ahead() blocks(rows, j1 - j0,
  // s1 - s0) times, to prefetch data that the caller needs next.
  void run(const Left& a, int64_t rows, const Right& b, const Part& part, float* c, int64_t ldc, bool add,
           LinePrefetch& ahead) const;
  int64_t blocks(int64_t rows, int64_t columns, int64_t steps) const {
    return (rows + most_rows(steps) - 1) / most_rows(steps) * (padded(columns) / kernel_.width);
  }

 private:
  PanelLayout layout() const { return {kernel_.width, true, kernel_.pairs, kernel_.group}; }
  // Returns the rows per block. Products with few steps (an attention head) have blocks of few rows, because blocks of
  // more rows take longer to start.
  int64_t most_rows(int64_t steps) const {
    return kernel_.tiles() || steps > 128 ? kernel_.rows : std::min(kernel_.rows, 8);
  }
  void run_in_place(const Left& a, int64_t rows, const Right& b, const Part& part, float* c, int64_t ldc, bool add,
                    LinePrefetch& ahead) const;
  void run_packed(const Left& a, int64_t rows, const Right& b, const Part& part, float* c, int64_t ldc, bool add,
                  LinePrefetch& ahead) const;
  const MicroKernel& kernel_;
};

}  // namespace amp::cpu
