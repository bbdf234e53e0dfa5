#include "backend/cpu/panel_product.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/block_transpose.h"
#include "backend/rows.h"

namespace amp::cpu {

namespace {

constexpr int64_t kGroup = 16;  // steps

// Rows of an operand as a panel of kernels that take groups of steps: of `width` rows, as many of them written as fill
// whole tiles.
void pack_left(const PanelProduct::Left& a, int64_t first, int64_t rows, int64_t steps, int64_t width, float* to) {
  const float* const from = static_cast<const float*>(a.data) + (a.by_rows ? first * a.ld : first);
  const auto at = [&](int64_t r, int64_t s) { return to + s * width + r * kGroup; };  // s: the first of a group
  const int64_t whole = steps / kGroup * kGroup;
  if (a.by_rows) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t s = 0; s < whole; s += kGroup) std::memcpy(at(r, s), from + r * a.ld + s, sizeof(float) * kGroup);
      if (whole == steps) continue;
      std::fill_n(at(r, whole), kGroup, 0.0f);
      std::copy(from + r * a.ld + whole, from + r * a.ld + steps, at(r, whole));
    }
  } else {
    at_level([&]<int Lanes>() AMP_INLINE {
      for (int64_t s = 0; s < steps; s += kGroup) {
        for (int64_t r = 0; r < rows; r += 16) {
          transpose_block<Lanes>(from + s * a.ld + r, a.ld, std::min(kGroup, steps - s),
                                 std::min<int64_t>(16, rows - r), [&](int64_t j) AMP_INLINE { return at(r + j, s); });
        }
      }
    });
  }
  for (int64_t r = rows; r % 16 != 0; ++r) {
    for (int64_t s = 0; s < steps; s += kGroup) std::fill_n(at(r, s), kGroup, 0.0f);
  }
}

}  // namespace

PanelProduct::Right PanelProduct::pack(const PackSource& b, int64_t columns, int64_t depth, float* panels) const {
  pack_panels(b, 0, columns, 0, depth, layout(), panels);
  return {panels, steps(depth), layout().steps(depth)};
}

void PanelProduct::run(const Left& a, int64_t rows, const Right& b, const Part& part, float* c, int64_t ldc, bool add,
                       LinePrefetch& ahead) const {
  if (kernel_.row_table)
    run_in_place(a, rows, b, part, c, ldc, add, ahead);
  else
    run_packed(a, rows, b, part, c, ldc, add, ahead);
}

void PanelProduct::run_in_place(const Left& a, int64_t rows, const Right& b, const Part& part, float* c, int64_t ldc,
                                bool add, LinePrefetch& ahead) const {
  // Blocks of few rows: these products are as deep as a head is wide, and more rows at once take longer to begin.
  const int64_t most = kernel_.stored_rows, blocks = (rows + most - 1) / most, w = kernel_.width;
  const float* const left = static_cast<const float*>(a.data);
  const MicroKernel::Block* const table = a.by_rows ? kernel_.row_table : kernel_.table;
  for (int64_t j = part.j0; j < part.j1; j += w) {
    const float* const panel = b.panels + j * b.lane + part.s0 * w;
    const int columns = static_cast<int>(std::min(w, part.j1 - j));
    for (int64_t t = 0; t < blocks; ++t) {  // of rows as equal in number as can be
      const int64_t i = rows * t / blocks, end = rows * (t + 1) / blocks;
      table[kernel_.index(static_cast<int>(end - i), columns)](part.s1 - part.s0, left + (a.by_rows ? i * a.ld : i),
                                                               a.ld, panel, w, c + i * ldc + j - part.j0, ldc, add);
      ahead();
    }
  }
}

void PanelProduct::run_packed(const Left& a, int64_t rows, const Right& b, const Part& part, float* c, int64_t ldc,
                              bool add, LinePrefetch& ahead) const {
  const int64_t w = kernel_.width, most = kernel_.rows, steps = part.s1 - part.s0,
                padded = (steps + kGroup - 1) / kGroup * kGroup;
  float* const panel = thread_scratch<float>(most * padded + kGroup, 1);
  float* const left = panel + (kGroup - reinterpret_cast<uintptr_t>(panel) / sizeof(float) % kGroup) % kGroup;
  const KernelScope scope(kernel_);
  for (int64_t i = 0; i < rows; i += most) {
    const int64_t n = std::min(most, rows - i);
    pack_left(a, i, n, steps, most, left);
    for (int64_t j = part.j0; j < part.j1; j += w) {
      kernel_.run(padded, static_cast<int>(n), static_cast<int>(std::min(w, part.j1 - j)), left,
                  b.panels + j * b.lane + part.s0 * w, c + i * ldc + j - part.j0, ldc, add);
      ahead();
    }
  }
}

}  // namespace amp::cpu
