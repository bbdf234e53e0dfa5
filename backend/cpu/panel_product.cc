#include "backend/cpu/panel_product.h"

#include <algorithm>

namespace amp::cpu {

PanelProduct::Right PanelProduct::pack(const PackSource& b, int64_t columns, int64_t depth, float* panels) const {
  pack_panels(b, 0, columns, 0, depth, {kernel_.width, true, kernel_.pairs}, panels);
  return {panels, steps(depth)};
}

void PanelProduct::run(const Left& a, int64_t rows, const Right& b, const Part& part, float* c, int64_t ldc, bool add,
                       LinePrefetch& ahead) const {
  // Blocks of few rows: these products are as deep as a head is wide, and more rows at once take longer to begin.
  const int64_t most = kernel_.stored_rows, blocks = (rows + most - 1) / most, w = kernel_.width;
  const float* const left = static_cast<const float*>(a.data);
  const MicroKernel::Block* const table = a.by_rows ? kernel_.row_table : kernel_.table;
  for (int64_t j = part.j0; j < part.j1; j += w) {
    const float* const panel = b.panels + j * b.steps + part.s0 * w;
    const int columns = static_cast<int>(std::min(w, part.j1 - j));
    for (int64_t t = 0; t < blocks; ++t) {  // of rows as equal in number as can be
      const int64_t i = rows * t / blocks, end = rows * (t + 1) / blocks;
      table[kernel_.index(static_cast<int>(end - i), columns)](part.s1 - part.s0, left + (a.by_rows ? i * a.ld : i),
                                                               a.ld, panel, w, c + i * ldc + j - part.j0, ldc, add);
      ahead();
    }
  }
}

}  // namespace amp::cpu
