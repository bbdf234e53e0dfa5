// The tile plan of a product (packed_gemm.h): tasks, blocks and panels. No plan changes bits: sums run over the
// depth in order and stay in fp32 from one block to the next.
#pragma once

#include <cstdint>

#include "backend/cpu/gemm/micro_kernel.h"
#include "backend/cpu/gemm/pack.h"
#include "backend/cpu/gemm/packed_gemm.h"

namespace amp::cpu {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

// How an operand is provided to tasks.
enum class Panels {
  stored,  // not packed: A's rows as they are stored
  before,  // packed up front by all threads, before the tasks start
  task,    // packed by the task, per block of the depth, so that panels are in its cache when they are multiplied
};

struct GemmCut {
  GemmCut(const PackedGemm& g, int64_t threads);

  int64_t tasks() const { return row_tasks * column_tasks; }
  // The first row of a task, and the first of its columns, out of n columns.
  int64_t row(const PackedGemm& g, int64_t task) const;
  int64_t column(int64_t n, int64_t task) const;
  int64_t a_floats(const PackedGemm& g) const;  // floats of panels that are packed up front; for B, at a time
  int64_t b_floats() const;
  // Elements of the depth in `deep` steps from step p on.
  int64_t elements(const PackedGemm& g, int64_t p, int64_t deep) const;
  PanelLayout rows_layout() const { return {kernel.rows, false, kernel.pairs, kernel.group, kernel.tiles()}; }
  PanelLayout columns_layout() const { return {kernel.width, true, kernel.pairs, kernel.group}; }

  const MicroKernel& kernel;
  int64_t per_step;  // elements of the depth in a step; a step is 4 bytes of a panel's lane
  int64_t steps;     // of the whole depth
  int64_t depth;     // steps of a block
  int64_t columns;   // columns of a block
  Panels a, b;
  int64_t chunk, packed_steps;  // columns and steps of B that are packed up front at a time; all if tasks pack it
  bool keeps_sums;              // sums of all columns of a task are stored outside C between blocks of the depth
  int64_t row_tasks, column_tasks;
};

// True if blocks are summed in C itself. Otherwise they use a scratch tile.
inline bool sums_in_c(const PackedGemm& g) { return g.c_dtype == DType::f32 && !g.accumulate; }

}  // namespace amp::cpu
