#include "backend/cpu/packed_gemm.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "backend/cpu/amx_tiles.h"
#include "backend/cpu/micro_kernel.h"
#include "backend/cpu/pack.h"
#include "backend/parallel.h"
#include "base/simd.h"

namespace amp::cpu {
namespace {

constexpr int64_t kDepth = 512;                      // most elements of the depth that are summed before the next block
constexpr int64_t kBlockBytes = 512 << 10;           // B panels of a block that stay in the second-level cache
constexpr int64_t kPackedBytes = 16 << 20;           // B packed at a time
constexpr int64_t kTaskRows = 112, kMostRows = 256;  // of a task, where panels have few rows, and where they have many
constexpr int64_t kTaskPanels = 8;                   // most panels of A of a task, if those are as many rows
constexpr int64_t kTasks = 4;                        // of a thread at least, where the shape allows
constexpr int64_t kBlockColumns = 512;               // most of a block

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

// Memory that a thread keeps for its panels: from the first use on as large as nearly all products need.
float* thread_panels(int64_t floats, int which) {
  constexpr int64_t kAtLeast[3] = {112 * kDepth, 112 * kBlockColumns, 256 << 10};
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

// Blocks are summed where they stay; others go by way of a tile.
bool direct(const PackedGemm& g) { return g.c_dtype == DType::f32 && !g.accumulate; }

// How a product is cut. Only the cut of the depth changes bits: it comes from the shape and the types alone.
struct Cut {
  Cut(const PackedGemm& g, int64_t threads)
      : kernel(panel_kernel(g.a.dtype == DType::bf16 && g.b.dtype == DType::bf16)) {
    pairs = kernel.pairs;
    per_step = pairs ? 2 : 1;
    steps = round_up(ceil_div(g.k, per_step), kernel.group);
    depth = steps ? round_up(ceil_div(steps, ceil_div(steps, kDepth / per_step)), kernel.group) : 0;
    columns = std::clamp<int64_t>(kBlockBytes / 4 / std::max<int64_t>(depth, 1) / kernel.width, 2, 16) * kernel.width;
    const int64_t fit = kPackedBytes / 4 / std::max<int64_t>(steps, 1) / kBlockColumns * kBlockColumns;
    chunk = std::min(round_up(g.n, kernel.width), std::max(kBlockColumns, fit));
    packed_steps = steps;
    if (fit == 0 && direct(g) && g.n % kernel.width == 0) {  // C keeps the sums: packed in parts of the depth instead
      chunk = std::min(g.n, 2 * kBlockColumns);
      packed_steps = std::min(steps, std::max<int64_t>(1, kPackedBytes / 4 / chunk / depth) * depth);
    }
    left_in_place = kernel.row_table && !pairs && g.a.dtype == DType::f32 && !g.a.trans;
    // The same number of tasks for each thread, of as many rows as can be: B is read from memory once by each. Where
    // there are few rows columns are cut too, and A is packed again for each part.
    const int64_t panels = ceil_div(g.m, kernel.rows), wanted = threads > 1 ? kTasks * threads : 1,
                  full = std::max<int64_t>(kTaskPanels, kTaskRows / kernel.rows),
                  most = ceil_div(panels, full) < wanted ? full / 2 : full;
    row_tasks = std::min(panels, round_up(ceil_div(panels, most), threads));
    column_tasks = std::clamp<int64_t>(wanted / std::max<int64_t>(row_tasks, 1), 1, ceil_div(chunk, 2 * kernel.width));
    keeps_sums = !direct(g) && !left_in_place && depth < steps;
    if (keeps_sums) column_tasks = std::max(column_tasks, ceil_div(chunk, kBlockColumns));
  }
  int64_t tasks() const { return row_tasks * column_tasks; }
  // The first row of a task, and the first column of one of n columns.
  int64_t row(const PackedGemm& g, int64_t task) const {
    return std::min(g.m, ceil_div(g.m, kernel.rows) * task / row_tasks * kernel.rows);
  }
  int64_t column(int64_t n, int64_t task) const {
    return std::min(n, ceil_div(n, kernel.width) * task / column_tasks * kernel.width);
  }
  const MicroKernel& kernel;
  bool pairs;
  int64_t per_step;             // elements of the depth in a step; a step is 4 bytes of a panel's lane
  int64_t steps;                // of the whole depth
  int64_t depth;                // steps of a block
  int64_t columns;              // of a block
  int64_t chunk, packed_steps;  // columns and steps packed at a time
  bool left_in_place;           // A is read as it is stored
  bool keeps_sums;              // of all columns of a task, outside C, from one block of the depth to the next
  int64_t row_tasks, column_tasks;
};

// What B's panels are packed of: columns [n0, n1), steps from p0 on.
struct PackedPart {
  float* panels;
  int64_t n0, n1, p0, steps;
};

void pack_b(const PackedGemm& g, const Cut& cut, const PackedPart& part, int64_t first, int64_t last) {
  const int64_t w = cut.kernel.width, begin = part.n0 + first * w, end = std::min(part.n1, part.n0 + last * w),
                at = part.p0 * cut.per_step;
  pack_panels({g.b.data, g.b.dtype, g.b.ld, g.b.trans}, begin, end - begin, at,
              std::min(part.steps * cut.per_step, g.k - at), {static_cast<int>(w), true, cut.pairs, cut.kernel.group},
              part.panels + first * part.steps * w);
}

// Biases of a block's columns and of a task's rows, in fp32.
const float* load_bias(const PackedGemm& g, const void* from, int64_t at, int64_t n, float* to) {
  if (!from) return nullptr;
  convert(g.bias_dtype, static_cast<const char*>(from) + at * size_of(g.bias_dtype), DType::f32, to, n);
  return to;
}

// alpha * sums + bias, stored at or added to C[i0.., j0..], where sums may lie already.
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
  if (direct(g)) {
    if (float* const out = static_cast<float*>(g.c) + i0 * g.ldc + j0; sums != out) {
      for (int64_t i = 0; i < rows; ++i) std::copy_n(sums + i * stride, columns, out + i * g.ldc);
    }
    return;
  }
  if (g.accumulate) {  // what would have been stored, so that the sum is that of two separate steps
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

// C[i0 .. i1, j0 .. j1], or what the packed steps of B add to it.
class Task {
 public:
  Task(const PackedGemm& g, const Cut& cut, const PackedPart& packed, int64_t i0, int64_t i1, int64_t j0, int64_t j1)
      : g_(g), cut_(cut), packed_(packed), i0_(i0), rows_(i1 - i0), j0_(j0), j1_(j1) {}

  void run() {
    if (rows_ <= 0 || j0_ >= j1_) return;
    const int64_t r = cut_.kernel.rows, padded = round_up(rows_, r);
    stride_ = cut_.keeps_sums ? round_up(j1_ - j0_, cut_.kernel.width) : cut_.columns;
    tile_ = thread_panels(padded * stride_, 1);
    row_bias_ = load_bias(g_, g_.row_bias, i0_, rows_, of_rows_);
    const amx::TileScope scope(cut_.kernel.tiles());
    if (cut_.left_in_place) {  // C stays in cache
      for (int64_t jb = j0_; jb < j1_; jb += cut_.columns) {
        each_depth([&](int64_t p) { block(jb, p); });
      }
      return;
    }
    left_ = thread_panels(padded * cut_.depth, 0);  // A does
    each_depth([&](int64_t p) {
      const int64_t at = p * cut_.per_step;
      pack_panels({g_.a.data, g_.a.dtype, g_.a.ld, !g_.a.trans}, i0_, rows_, at,
                  std::min(steps(p) * cut_.per_step, g_.k - at),
                  {static_cast<int>(r), false, cut_.pairs, cut_.kernel.group, cut_.kernel.tiles()}, left_);
      for (int64_t jb = j0_; jb < j1_; jb += cut_.columns) block(jb, p);
    });
  }

 private:
  template <class F>
  void each_depth(const F& f) const {  // once where there is no depth at all
    const int64_t end = packed_.p0 + packed_.steps;
    for (int64_t p = packed_.p0; p == packed_.p0 || p < end; p += std::max<int64_t>(cut_.depth, 1)) f(p);
  }
  int64_t steps(int64_t p) const { return std::min(cut_.depth, cut_.steps - p); }

  // Steps from p on of columns from jb on; behind the last steps its sums are finished.
  void block(int64_t jb, int64_t p) {
    const int64_t w = cut_.kernel.width, r = cut_.kernel.rows, end = std::min(j1_, jb + cut_.columns), deep = steps(p);
    const bool last = p + deep == cut_.steps;
    const int64_t whole = direct(g_) ? jb + (end - jb) / w * w : jb;  // whole panels go right to C
    float* const tile = tile_ - (cut_.keeps_sums ? j0_ : jb);
    if (last) column_bias_ = load_bias(g_, g_.bias, jb, end - jb, of_columns_);
    for (int64_t i = 0; i < rows_; i += r) {
      const int used = static_cast<int>(std::min(r, rows_ - i));
      float* const out = static_cast<float*>(g_.c) + (i0_ + i) * g_.ldc;  // of fp32 alone
      const void* const a =
          cut_.left_in_place ? static_cast<const float*>(g_.a.data) + (i0_ + i) * g_.a.ld + p : left_ + i * deep;
      for (int64_t j = jb; j < end; j += w) {
        const float* const b = packed_.panels + (j - packed_.n0) * packed_.steps + (p - packed_.p0) * w;
        const int columns = static_cast<int>(std::min(w, j1_ - j));
        float* const to = j < whole ? out + j : tile + i * stride_ + j;
        const int64_t ld = j < whole ? g_.ldc : stride_;
        if (deep == 0) {
          for (int q = 0; q < used; ++q) std::fill_n(to + q * ld, columns, 0.0f);
        } else if (cut_.left_in_place)
          cut_.kernel.run_rows(deep, used, columns, a, g_.a.ld, b, to, ld, p > 0);
        else
          cut_.kernel.run(deep, used, columns, a, b, to, ld, p > 0);
      }
      if (!last) continue;
      finish_rows(i, jb, whole, jb, out + jb, g_.ldc);
      finish_rows(i, whole, end, jb, tile + i * stride_ + whole, stride_);
    }
  }

  // Columns from .. to of a panel's rows; jb: the block's first.
  void finish_rows(int64_t i, int64_t from, int64_t to, int64_t jb, float* sums, int64_t ld) const {
    if (from >= to) return;
    finish(g_, sums, ld, i0_ + i, std::min<int64_t>(cut_.kernel.rows, rows_ - i), from, to - from,
           column_bias_ ? column_bias_ + from - jb : nullptr, row_bias_ ? row_bias_ + i : nullptr);
  }

  const PackedGemm& g_;
  const Cut& cut_;
  const PackedPart packed_;
  int64_t i0_, rows_, j0_, j1_, stride_ = 0;
  float *left_ = nullptr, *tile_ = nullptr;
  float of_rows_[kMostRows], of_columns_[kBlockColumns];
  const float *row_bias_ = nullptr, *column_bias_ = nullptr;
};

// One of cut.tasks().
void run_task(const PackedGemm& g, const Cut& cut, const PackedPart& part, int64_t t) {
  const int64_t i = t / cut.column_tasks, j = t % cut.column_tasks, width = part.n1 - part.n0;
  Task(g, cut, part, cut.row(g, i), cut.row(g, i + 1), part.n0 + cut.column(width, j),
       part.n0 + cut.column(width, j + 1))
      .run();
}

// f(part, its panels of B) for what is packed at a time.
template <class F>
void each_part(const PackedGemm& g, const Cut& cut, float* packed, const F& f) {
  for (int64_t n0 = 0; n0 < g.n; n0 += cut.chunk) {
    const int64_t n1 = std::min(g.n, n0 + cut.chunk);
    for (int64_t p = 0; p == 0 || p < cut.steps; p += std::max<int64_t>(cut.packed_steps, 1))
      f(PackedPart{packed, n0, n1, p, std::min(cut.packed_steps, cut.steps - p)}, ceil_div(n1 - n0, cut.kernel.width));
  }
}

}  // namespace

int64_t PackedGemm::workspace() const {
  const Cut cut(*this, 1);
  return cut.chunk * cut.packed_steps * 4;
}

void PackedGemm::run(void* workspace) const {
  if (m == 0 || n == 0) return;
  const bool small = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) < 1e6;
  const Cut cut(*this, small ? 1 : omp_get_max_threads());
  each_part(*this, cut, static_cast<float*>(workspace), [&](const PackedPart& part, int64_t panels) {
    if (small) {
      pack_b(*this, cut, part, 0, panels);
      for (int64_t t = 0; t < cut.tasks(); ++t) run_task(*this, cut, part, t);
    } else {
      parallel_ranges(panels, 2, [&](int64_t b, int64_t e) { pack_b(*this, cut, part, b, e); });
      parallel_for(cut.tasks(), [&](int64_t t) { run_task(*this, cut, part, t); });
    }
  });
}

void PackedGemm::run_here() const {
  if (m == 0 || n == 0) return;
  const Cut cut(*this, 1);
  each_part(*this, cut, thread_panels(workspace() / 4, 2), [&](const PackedPart& part, int64_t panels) {
    pack_b(*this, cut, part, 0, panels);
    for (int64_t t = 0; t < cut.tasks(); ++t) run_task(*this, cut, part, t);
  });
}

}  // namespace amp::cpu
