// The tile plan of a matrix product (packed_gemm.h): how C is divided into tasks, and operands into blocks and panels.
// The depth is the dimension k that is summed over. The plan does not change the bits of the result, because sums run
// over the depth in order and stay in fp32 from one block to the next.
#pragma once

#include <cstdint>

#include "backend/cpu/gemm/micro_kernel.h"
#include "backend/cpu/gemm/pack.h"
#include "backend/cpu/gemm/packed_gemm.h"

namespace amp::cpu {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

// The time at which an operand is packed into panels.
enum class Panels {
  stored,  // never: tasks read the rows of A in place
  before,  // before the tasks start, by all threads
  task,    // by each task, one block of the depth at a time, so that the panels are in cache when they are multiplied
};

struct GemmCut {
  GemmCut(const PackedGemm& g, int64_t threads);

  int64_t tasks() const { return row_tasks * column_tasks; }
  // row() returns the first row of a task, column() its first column. n: the number of columns of this call's C.
  int64_t row(const PackedGemm& g, int64_t task) const;
  int64_t column(int64_t n, int64_t task) const;
  // Sizes in floats of the panels that are packed before the tasks start: all of A, and the columns and steps of B that
  // are packed at a time.
  int64_t a_floats(const PackedGemm& g) const;
  int64_t b_floats() const;
  // Returns the number of elements of the depth in steps [p, p + deep), fewer at the end of the depth.
  int64_t elements(const PackedGemm& g, int64_t p, int64_t deep) const;
  PanelLayout rows_layout() const { return {kernel.rows, false, kernel.pairs, kernel.group, kernel.tiles()}; }
  PanelLayout columns_layout() const { return {kernel.width, true, kernel.pairs, kernel.group}; }

  const MicroKernel& kernel;
  int64_t per_step;  // elements of the depth in a step: one fp32 or two bf16 (4 bytes)
  int64_t steps;     // steps in the whole depth
  int64_t depth;     // steps in a block
  int64_t columns;   // columns in a block
  Panels a, b;
  // Columns (chunk) and steps (packed_steps) of B that are packed at a time. If the tasks pack B, these are all of B.
  int64_t chunk, packed_steps;
  bool keeps_sums;  // a task keeps the sums of all its columns outside of C between blocks of the depth
  int64_t row_tasks, column_tasks;
};

// True if the sums of a block are accumulated in C itself, false if in a scratch tile.
inline bool sums_in_c(const PackedGemm& g) { return g.c_dtype == DType::f32 && !g.accumulate; }

}  // namespace amp::cpu
