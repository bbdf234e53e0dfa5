// Matrix products with packing (packed_gemm.h), after Goto and van de Geijn 2008.
// multiply() packs operands up front if the plan (gemm_cut.h) says so, then runs tasks. A Task loops over blocks of
// columns and of the depth, packs what it must, and calls the micro-kernel. finish() applies alpha, bias and the
// output type.

#include "backend/cpu/gemm/packed_gemm.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "backend/cpu/gemm/gemm_cut.h"
#include "backend/cpu/gemm/tile_scope.h"
#include "backend/parallel.h"
#include "base/simd.h"

namespace amp::cpu {
namespace {

constexpr int64_t kMostColumns = 512;  // maximum columns of a block
constexpr int kMostPanelRows = 32;

// Returns memory for panels, which the thread keeps. The first allocation is large enough for nearly all products.
float* thread_panels(int64_t floats, int which) {
  constexpr int64_t kAtLeast[3] = {int64_t{192} * 512, 112 * kMostColumns, 256 << 10};
  floats = std::max(floats, kAtLeast[which]);
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  thread_local std::unique_ptr<float, Free> kept[3];
  thread_local int64_t size[3] = {};
  if (size[which] < floats) {
    kept[which].reset(static_cast<float*>(std::aligned_alloc(64, static_cast<size_t>(round_up(floats * 4, 64)))));
    if (!kept[which]) throw std::bad_alloc();
    size[which] = floats;
  }
  return kept[which].get();
}

// Converts the biases of a block's columns, or of a panel's rows, to fp32.
const float* load_bias(const PackedGemm& g, const void* from, int64_t at, int64_t n, float* to) {
  if (!from) return nullptr;
  convert(g.bias_dtype, static_cast<const char*>(from) + at * size_of(g.bias_dtype), DType::f32, to, n);
  return to;
}

// Stores or adds alpha * sums + bias at C[i0.., j0..]. The sums may already be in C.
void finish(const PackedGemm& g, float* sums, int64_t stride, int64_t i0, int64_t rows, int64_t j0, int64_t columns,
            const float* bias, const float* row_bias) {
  const float alpha = g.alpha;
  if (bias || row_bias || alpha != 1) {
    simd([=]() AMP_INLINE {
      for (int64_t i = 0; i < rows; ++i) {
        float* x = sums + i * stride;
        if (bias) {
          for (int64_t j = 0; j < columns; ++j) x[j] = alpha * x[j] + bias[j];
        } else if (row_bias) {
          for (int64_t j = 0; j < columns; ++j) x[j] = alpha * x[j] + row_bias[i];
        } else {
          for (int64_t j = 0; j < columns; ++j) x[j] = alpha * x[j];
        }
      }
    });
  }
  if (sums_in_c(g)) {
    if (float* const out = static_cast<float*>(g.c) + i0 * g.ldc + j0; sums != out) {
      for (int64_t i = 0; i < rows; ++i) std::copy_n(sums + i * stride, columns, out + i * g.ldc);
    }
    return;
  }
  // Adds the sums after they have been rounded to fp32, so that the result equals that of a product and a separate
  // addition.
  if (g.accumulate) {
    simd([=, out = static_cast<float*>(g.c) + i0 * g.ldc + j0, ld = g.ldc]() AMP_INLINE {
      for (int64_t i = 0; i < rows; ++i) {
        float* y = out + i * ld;
        const float* x = sums + i * stride;
        for (int64_t j = 0; j < columns; ++j) y[j] += x[j];
      }
    });
    return;
  }
  for (int64_t i = 0; i < rows; ++i) {
    convert(DType::f32, sums + i * stride, g.c_dtype,
            static_cast<char*>(g.c) + ((i0 + i) * g.ldc + j0) * size_of(g.c_dtype), columns);
  }
}

PackSource a_source(const PackedGemm& g) { return {g.a.data, g.a.dtype, g.a.ld, !g.a.trans}; }
PackSource b_source(const PackedGemm& g) { return {g.b.data, g.b.dtype, g.b.ld, g.b.trans, g.b.quantized}; }

// Packs steps [p, p + steps) of A's rows [i0, i1), or of B's columns [j0, j1). With `first`, also computes
// PackedGemm::a_sums or b_sums if they are requested.
void pack_a(const PackedGemm& g, const GemmCut& cut, int64_t i0, int64_t i1, int64_t p, int64_t steps, bool first,
            float* to) {
  const int64_t at = p * cut.per_step, n = cut.elements(g, p, steps);
  pack_panels(a_source(g), i0, i1 - i0, at, n, cut.rows_layout(), to);
  if (first && g.a_sums) add_lanes(a_source(g), i0, i1 - i0, at, n, g.a_sums + i0);
}
void pack_b(const PackedGemm& g, const GemmCut& cut, int64_t j0, int64_t j1, int64_t p, int64_t steps, bool first,
            float* to) {
  const int64_t at = p * cut.per_step, n = cut.elements(g, p, steps);
  pack_panels(b_source(g), j0, j1 - j0, at, n, cut.columns_layout(), to);
  if (first && g.b_sums) add_lanes(b_source(g), j0, j1 - j0, at, n, g.b_sums + j0);
}

// Panels that were packed before the tasks start: all of A, and steps [p0, p0 + steps) of B's columns [n0, n1). Tasks
// do not read a (or b) if that operand is not packed in advance (GemmCut::a and b).
struct Packed {
  const float *a, *b;
  int64_t n0, n1, p0, steps;
};

// Computes C[i0 .. i1, j0 .. j1], or the contribution of the packed steps of B to it.
class Task {
 public:
  Task(const PackedGemm& g, const GemmCut& cut, const Packed& packed, int64_t i0, int64_t i1, int64_t j0, int64_t j1)
      : g_(g), cut_(cut), packed_(packed), i0_(i0), rows_(i1 - i0), j0_(j0), j1_(j1), lda_(g.a.ld / cut.per_step) {}

  void run() {
    if (rows_ <= 0 || j0_ >= j1_) return;
    const int64_t padded = round_up(rows_, cut_.kernel.rows);
    stride_ = cut_.keeps_sums ? round_up(j1_ - j0_, cut_.kernel.width) : cut_.columns;
    tile_ = thread_panels((one_block() ? cut_.kernel.rows : padded) * stride_, 1);
    if (cut_.a == Panels::task) own_ = thread_panels(padded * cut_.depth, 0);
    if (cut_.b == Panels::task) own_ = thread_panels(cut_.columns * cut_.depth, 0);
    const TileScope scope(cut_.kernel.tiles());
    if (cut_.a == Panels::stored) {  // this loop order keeps C in cache
      for (int64_t jb = j0_; jb < j1_; jb += cut_.columns) {
        each_depth([&](int64_t p) { block(jb, p); });
      }
      return;
    }
    each_depth([&](int64_t p) {  // this loop order keeps A in cache
      if (cut_.a == Panels::task) pack_a(g_, cut_, i0_, i0_ + rows_, p, steps(p), j0_ == 0, own_);
      for (int64_t jb = j0_; jb < j1_; jb += cut_.columns) block(jb, p);
    });
  }

 private:
  template <class F>
  void each_depth(const F& f) const {  // calls f once if the depth is 0
    const int64_t end = packed_.p0 + packed_.steps;
    for (int64_t p = packed_.p0; p == packed_.p0 || p < end; p += std::max<int64_t>(cut_.depth, 1)) f(p);
  }
  int64_t steps(int64_t p) const { return std::min(cut_.depth, cut_.steps - p); }
  // True if the whole depth is one block. Sums outside C are then needed only for the rows of one panel.
  bool one_block() const { return cut_.depth == cut_.steps; }

  // Returns the panel of A that begins at row i of the task, from step p on. If A is not packed, returns the address of
  // these rows.
  const void* left(int64_t i, int64_t p) const {
    if (cut_.a == Panels::stored) return static_cast<const float*>(g_.a.data) + (i0_ + i) * lda_ + p;
    if (cut_.a == Panels::task) return own_ + i * steps(p);
    const int64_t width = cut_.kernel.tiles() ? cut_.kernel.rows : std::min<int64_t>(cut_.kernel.rows, rows_ - i);
    return packed_.a + (i0_ + i) * cut_.steps + p * width;
  }
  // Returns the panel of B that begins at column j, from step p on. jb: the first column of the current block.
  const float* right(int64_t j, int64_t jb, int64_t p) const {
    if (cut_.b == Panels::task) return own_ + (j - jb) * steps(p);
    return packed_.b + (j - packed_.n0) * packed_.steps + (p - packed_.p0) * cut_.kernel.width;
  }

  // Multiplies the block of steps from p on by the block of columns from jb on. Finishes the sums after the last steps.
  void block(int64_t jb, int64_t p) {
    const int64_t w = cut_.kernel.width, r = cut_.kernel.rows, end = std::min(j1_, jb + cut_.columns), deep = steps(p);
    const bool last = p + deep == cut_.steps;
    const int64_t whole = sums_in_c(g_) ? jb + (end - jb) / w * w : jb;  // whole panels are written directly to C
    float* const tile = tile_ - (cut_.keeps_sums ? j0_ : jb);
    if (cut_.b == Panels::task) pack_b(g_, cut_, jb, end, p, deep, i0_ == 0, own_);
    float of_columns[kMostColumns];
    column_bias_ = last ? load_bias(g_, g_.bias, jb, end - jb, of_columns) : nullptr;
    for (int64_t i = 0; i < rows_; i += r) {
      const int used = static_cast<int>(std::min(r, rows_ - i));
      float* const out = static_cast<float*>(g_.c) + (i0_ + i) * g_.ldc;  // used only if C is fp32
      float* const sums = one_block() ? tile : tile + i * stride_;
      const void* const a = left(i, p);
      for (int64_t j = jb; j < end; j += w) {
        const float* const b = right(j, jb, p);
        const int columns = static_cast<int>(std::min(w, j1_ - j));
        float* const to = j < whole ? out + j : sums + j;
        const int64_t ld = j < whole ? g_.ldc : stride_;
        if (deep == 0) {
          for (int q = 0; q < used; ++q) std::fill_n(to + q * ld, columns, 0.0f);
        } else if (cut_.a == Panels::stored)
          cut_.kernel.run_rows(deep, used, columns, a, lda_, b, to, ld, p > 0);
        else
          cut_.kernel.run(deep, used, columns, a, b, to, ld, p > 0);
      }
      if (!last) continue;
      finish_rows(i, jb, whole, jb, out + jb, g_.ldc);
      finish_rows(i, whole, end, jb, sums + whole, stride_);
    }
  }

  // Finishes the columns [from, to) of a panel's rows; jb: the first column of the block.
  void finish_rows(int64_t i, int64_t from, int64_t to, int64_t jb, float* sums, int64_t ld) const {
    if (from >= to) return;
    const int64_t n = std::min<int64_t>(cut_.kernel.rows, rows_ - i);
    float of_rows[kMostPanelRows];
    finish(g_, sums, ld, i0_ + i, n, from, to - from, column_bias_ ? column_bias_ + from - jb : nullptr,
           load_bias(g_, g_.row_bias, i0_ + i, n, of_rows));
  }

  const PackedGemm& g_;
  const GemmCut& cut_;
  const Packed packed_;
  int64_t i0_, rows_, j0_, j1_;
  int64_t lda_;  // leading dimension of unpacked A, in steps
  int64_t stride_ = 0;
  float *own_ = nullptr, *tile_ = nullptr;  // panels that the task packs, and sums outside C
  const float* column_bias_ = nullptr;
};

// Runs task t of cut.tasks().
void run_task(const PackedGemm& g, const GemmCut& cut, const Packed& packed, int64_t t) {
  const int64_t i = t / cut.column_tasks, j = t % cut.column_tasks, width = packed.n1 - packed.n0;
  Task(g, cut, packed, cut.row(g, i), cut.row(g, i + 1), packed.n0 + cut.column(width, j),
       packed.n0 + cut.column(width, j + 1))
      .run();
}

// Computes the whole product. each(n, grain, f) calls f(begin, end) for ranges of [0, n) of at least about `grain`.
template <class Each>
void multiply(const PackedGemm& g, const GemmCut& cut, float* workspace, const Each& each) {
  const int64_t r = cut.kernel.rows, w = cut.kernel.width;
  float *const a = workspace, *const b = workspace + cut.a_floats(g);
  if (cut.a == Panels::before) {
    each(ceil_div(g.m, r), 4, [&](int64_t first, int64_t last) {
      pack_a(g, cut, first * r, std::min(g.m, last * r), 0, cut.steps, true, a + first * r * cut.steps);
    });
  }
  for (int64_t n0 = 0; n0 < g.n; n0 += cut.chunk) {
    const int64_t n1 = std::min(g.n, n0 + cut.chunk);
    for (int64_t p = 0; p == 0 || p < cut.steps; p += std::max<int64_t>(cut.packed_steps, 1)) {
      const int64_t steps = std::min(cut.packed_steps, cut.steps - p);
      if (cut.b == Panels::before) {
        each(ceil_div(n1 - n0, w), 2, [&](int64_t first, int64_t last) {
          pack_b(g, cut, n0 + first * w, std::min(n1, n0 + last * w), p, steps, true, b + first * w * steps);
        });
      }
      const Packed packed{a, b, n0, n1, p, steps};
      each(cut.tasks(), 1, [&](int64_t first, int64_t last) {
        for (int64_t t = first; t < last; ++t) run_task(g, cut, packed, t);
      });
    }
  }
}

// Computes only a_sums and b_sums, for an empty C.
void sum_lanes(const PackedGemm& g) {
  if (g.a_sums) add_lanes(a_source(g), 0, g.m, 0, g.k, g.a_sums);
  if (g.b_sums) add_lanes(b_source(g), 0, g.n, 0, g.k, g.b_sums);
}

}  // namespace

int64_t PackedGemm::workspace() const {
  const GemmCut cut(*this, 1);
  return (cut.a_floats(*this) + cut.b_floats()) * 4;
}

void PackedGemm::run(void* workspace) const {
  if (m == 0 || n == 0) return sum_lanes(*this);
  const bool small = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) < 1e6;
  const GemmCut cut(*this, small ? 1 : omp_get_max_threads());
  multiply(*this, cut, static_cast<float*>(workspace), [&](int64_t items, int64_t grain, auto&& f) {
    if (small)
      f(0, items);
    else
      parallel_ranges(items, grain, f, std::max<int64_t>(64, grain == 1 ? items : 0));
  });
}

void PackedGemm::run_here() const {
  if (m == 0 || n == 0) return sum_lanes(*this);
  const GemmCut cut(*this, 1);
  multiply(*this, cut, thread_panels(workspace() / 4, 2), [](int64_t items, int64_t, auto&& f) { f(0, items); });
}

}  // namespace amp::cpu
