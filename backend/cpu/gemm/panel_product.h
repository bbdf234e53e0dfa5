// Products of small matrices on the calling thread, for kernels that keep their operands in cache: the right-hand side
// is packed once and used many times, the left one is read where it lies.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/gemm/line_prefetch.h"
#include "backend/cpu/gemm/micro_kernel.h"
#include "backend/cpu/gemm/pack.h"

namespace amp::cpu {

// Memory of the calling thread for rows in the order of tiles, 64-byte aligned: one at a time.
float* tile_scratch(int64_t floats);

class PanelProduct {
 public:
  // What the operands are stored in: bf16 is multiplied as pairs where the CPU can, everything else in fp32.
  explicit PanelProduct(DType t) : kernel_(panel_kernel(t == DType::bf16)) {}

  bool pairs() const { return kernel_.pairs; }
  int64_t steps(int64_t depth) const { return pairs() ? (depth + 1) / 2 : depth; }
  // Columns as they are computed: whole panels.
  int64_t padded(int64_t columns) const { return (columns + kernel_.width - 1) / kernel_.width * kernel_.width; }
  int64_t panel_floats(int64_t columns, int64_t depth) const { return padded(columns) * layout().steps(depth); }

  struct Right {
    const float* panels;
    int64_t steps;  // of all that is packed
    int64_t lane;   // floats of a column within its panel
  };
  Right pack(const PackSource& b, int64_t columns, int64_t depth, float* panels) const;

  // Elements of 4 bytes, fp32 or pairs along the depth; element (row, step) at row * ld + step, or step * ld + row; or
  // what ready() has made of them, from a row on that is a multiple of 32.
  struct Left {
    const void* data;
    int64_t ld;
    bool by_rows;
    bool packed = false;
    Left from_row(int64_t r) const {
      return {static_cast<const float*>(data) + (by_rows ? r * ld : r), ld, by_rows, packed};
    }
  };
  // Rows for many products: with tiles in their order, copied to ready_floats() at `to` (64-byte aligned), else as they
  // are. by_rows only.
  int64_t ready_floats(int64_t rows, int64_t steps) const;
  Left ready(const Left& a, int64_t rows, int64_t steps, float* to) const;
  // A part of the product: steps [s0, s1) of B, whose first is A's first and a multiple of 16, and its columns
  // [j0, j1), where j0 is the first of a panel. B may end at s1, or a multiple of 16.
  struct Part {
    int64_t s0, s1, j0, j1;
  };
  // c (rows, padded(j1 - j0)) = or += a b. ahead: called for each of blocks(rows, j1 - j0, s1 - s0).
  void run(const Left& a, int64_t rows, const Right& b, const Part& part, float* c, int64_t ldc, bool add,
           LinePrefetch& ahead) const;
  int64_t blocks(int64_t rows, int64_t columns, int64_t steps) const {
    return (rows + most_rows(steps) - 1) / most_rows(steps) * (padded(columns) / kernel_.width);
  }

 private:
  PanelLayout layout() const { return {kernel_.width, true, kernel_.pairs, kernel_.group}; }
  // Of a block: few where the product is as deep as a head is wide, as more rows at once take longer to begin.
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
