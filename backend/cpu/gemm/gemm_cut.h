// How a product of backend/cpu/gemm/packed_gemm.h is cut into tasks, blocks and panels. No cut changes bits: sums run over
// the depth in order, and are kept in fp32 from one block of it to the next.
#pragma once

#include <cstdint>

#include "backend/cpu/gemm/micro_kernel.h"
#include "backend/cpu/gemm/pack.h"
#include "backend/cpu/gemm/packed_gemm.h"

namespace amp::cpu {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

// Where a task finds the panels of an operand.
enum class Panels {
  stored,  // A's rows as they are
  before,  // packed by all threads before the tasks begin
  task,    // packed by the task, block by block of the depth: still in its cache when they are multiplied
};

struct GemmCut {
  GemmCut(const PackedGemm& g, int64_t threads);

  int64_t tasks() const { return row_tasks * column_tasks; }
  // The first row of a task, and the first column of one of n columns.
  int64_t row(const PackedGemm& g, int64_t task) const;
  int64_t column(int64_t n, int64_t task) const;
  int64_t a_floats(const PackedGemm& g) const;  // of panels packed before, and of B's at a time
  int64_t b_floats() const;
  // Of so many steps from p on: elements of the depth.
  int64_t elements(const PackedGemm& g, int64_t p, int64_t deep) const;
  PanelLayout rows_layout() const { return {kernel.rows, false, kernel.pairs, kernel.group, kernel.tiles()}; }
  PanelLayout columns_layout() const { return {kernel.width, true, kernel.pairs, kernel.group}; }

  const MicroKernel& kernel;
  int64_t per_step;  // elements of the depth in a step; a step is 4 bytes of a panel's lane
  int64_t steps;     // of the whole depth
  int64_t depth;     // steps of a block
  int64_t columns;   // of a block
  Panels a, b;
  int64_t chunk, packed_steps;  // columns and steps of B that are packed before at a time; all where tasks do it
  bool keeps_sums;              // of all columns of a task, outside C, from one block of the depth to the next
  int64_t row_tasks, column_tasks;
};

// Blocks are summed in C itself; others go by way of a tile.
inline bool sums_in_c(const PackedGemm& g) { return g.c_dtype == DType::f32 && !g.accumulate; }

}  // namespace amp::cpu
