// Small products on the calling thread (panel_product.h). Packs the right-hand side once, and calls micro-kernels on
// rows that are used in place. For a tile unit, rows are first copied into tile order.

#include "backend/cpu/gemm/panel_product.h"

#include <algorithm>

#include "backend/cpu/gemm/block_transpose.h"
#include "backend/cpu/gemm/tile_scope.h"
#include "backend/rows.h"

namespace amp::cpu {

namespace {

constexpr int64_t kTile = TileUnit::kTile;

// Packs rows of an operand into a panel of tiles with `width` rows. Only rows of complete tiles are written.
void pack_left(const PanelProduct::Left& a, int64_t first, int64_t rows, int64_t steps, const PanelLayout& layout,
               float* to) {
  if (a.by_rows) return pack_panels({a.data, DType::bf16, 2 * a.ld, true}, first, rows, 0, 2 * steps, layout, to);
  const float* const from = static_cast<const float*>(a.data) + first;
  const auto at = [&](int64_t r, int64_t s) { return to + s * layout.width + r * kTile; };  // s: first step of a group
  at_level([&]<int Lanes>() AMP_INLINE {
    for (int64_t s = 0; s < steps; s += kTile) {
      for (int64_t r = 0; r < rows; r += kTile) {
        transpose_block<Lanes>(from + s * a.ld + r, a.ld, std::min(kTile, steps - s), std::min(kTile, rows - r),
                               [&](int64_t j) AMP_INLINE { return at(r + j, s); });
      }
    }
  });
  for (int64_t r = rows; r % kTile != 0; ++r) {
    for (int64_t s = 0; s < steps; s += kTile) std::fill_n(at(r, s), kTile, 0.0f);
  }
}

int64_t filled(int64_t steps) { return (steps + kTile - 1) / kTile * kTile; }
PanelLayout rows_of_tiles(const MicroKernel& kernel) { return {kernel.rows, false, true, kernel.group, true}; }

}  // namespace

float* tile_scratch(int64_t floats) {
  float* const p = thread_scratch<float>(floats + kTile, 1);
  return p + (kTile - reinterpret_cast<uintptr_t>(p) / sizeof(float) % kTile) % kTile;
}

PanelProduct::Right PanelProduct::pack(const PackSource& b, int64_t columns, int64_t depth, float* panels) const {
  pack_panels(b, 0, columns, 0, depth, layout(), panels);
  return {panels, steps(depth), layout().steps(depth)};
}

void PanelProduct::run(const Left& a, int64_t rows, const Right& b, const Part& part, float* c, int64_t ldc, bool add,
                       LinePrefetch& ahead) const {
  if (kernel_.tiles())
    run_packed(a, rows, b, part, c, ldc, add, ahead);
  else
    run_in_place(a, rows, b, part, c, ldc, add, ahead);
}

void PanelProduct::run_in_place(const Left& a, int64_t rows, const Right& b, const Part& part, float* c, int64_t ldc,
                                bool add, LinePrefetch& ahead) const {
  const int64_t fit = most_rows(part.s1 - part.s0), most = a.by_rows ? std::min(fit, most_stored_rows(a.ld)) : fit,
                blocks = (rows + most - 1) / most, w = kernel_.width;
  const float* const left = static_cast<const float*>(a.data);
  const MicroKernel::Block* const table = a.by_rows ? kernel_.row_table : kernel_.table;
  for (int64_t j = part.j0; j < part.j1; j += w) {
    const float* const panel = b.panels + j * b.lane + part.s0 * w;
    const int columns = static_cast<int>(std::min(w, part.j1 - j));
    for (int64_t t = 0; t < blocks; ++t) {  // the blocks have nearly equal numbers of rows
      const int64_t i = rows * t / blocks, end = rows * (t + 1) / blocks;
      table[kernel_.index(static_cast<int>(end - i), columns)](part.s1 - part.s0, left + (a.by_rows ? i * a.ld : i),
                                                               a.ld, panel, w, c + i * ldc + j - part.j0, ldc, add);
      ahead();
    }
  }
}

int64_t PanelProduct::ready_floats(int64_t rows, int64_t steps) const {
  return kernel_.tiles() ? (rows + kernel_.rows - 1) / kernel_.rows * kernel_.rows * filled(steps) : 0;
}

PanelProduct::Left PanelProduct::ready(const Left& a, int64_t rows, int64_t steps, float* to) const {
  if (!kernel_.tiles()) return a;
  for (int64_t i = 0; i < rows; i += kernel_.rows) {
    const Left block = a.from_row(i);
    pack_left(block, 0, std::min<int64_t>(kernel_.rows, rows - i), steps, rows_of_tiles(kernel_),
              to + i * filled(steps));
  }
  return {to, filled(steps), true, true};
}

void PanelProduct::run_packed(const Left& a, int64_t rows, const Right& b, const Part& part, float* c, int64_t ldc,
                              bool add, LinePrefetch& ahead) const {
  const int64_t w = kernel_.width, most = kernel_.rows, steps = part.s1 - part.s0, padded = filled(steps);
  float* const scratch = a.packed ? nullptr : tile_scratch(most * padded);
  const TileScope scope(true);
  for (int64_t i = 0; i < rows; i += most) {
    const int64_t n = std::min(most, rows - i);
    if (!a.packed) pack_left(a, i, n, steps, rows_of_tiles(kernel_), scratch);
    const float* const left = a.packed ? static_cast<const float*>(a.data) + i * padded : scratch;
    for (int64_t j = part.j0; j < part.j1; j += w) {
      kernel_.run(padded, static_cast<int>(n), static_cast<int>(std::min(w, part.j1 - j)), left,
                  b.panels + j * b.lane + part.s0 * w, c + i * ldc + j - part.j0, ldc, add);
      ahead();
    }
  }
}

}  // namespace amp::cpu
