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

constexpr int64_t kDepth = 512;             // most elements of the depth that are summed before the next block
constexpr int64_t kBlockBytes = 512 << 10;  // B panels of a block that stay in the second-level cache
constexpr int64_t kPackedBytes = 16 << 20;  // B packed at a time
constexpr int64_t kTaskPanels = 8;          // most panels of A of a task
constexpr int64_t kMostRows = 32 * kTaskPanels;
constexpr int64_t kTasks = 12;         // at least so many, where the shape allows
constexpr int64_t kTaskColumns = 512;  // most columns of a task: A's panels are packed once for so many

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

// Memory that a thread keeps for its panels: from the first use on as large as nearly all products need.
float* thread_panels(int64_t floats, int which) {
  constexpr int64_t kAtLeast[3] = {112 * kDepth, 112 * kTaskColumns, 256 << 10};
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

// How a product is cut, from its shape and types alone.
struct Cut {
  explicit Cut(const PackedGemm& g) : kernel(panel_kernel(g.a.dtype == DType::bf16 && g.b.dtype == DType::bf16)) {
    pairs = kernel.pairs;
    per_step = pairs ? 2 : 1;
    steps = round_up(ceil_div(g.k, per_step), kernel.group);
    depth = steps ? round_up(ceil_div(steps, ceil_div(steps, kDepth / per_step)), kernel.group) : 0;
    columns = std::clamp<int64_t>(kBlockBytes / 4 / std::max<int64_t>(depth, 1) / kernel.width, 2, 16) * kernel.width;
    const int64_t fit = kPackedBytes / 4 / std::max<int64_t>(steps, 1) / kTaskColumns * kTaskColumns;
    chunk = std::min(round_up(g.n, kernel.width), std::max(kTaskColumns, fit));
    // Some 12 tasks: the more rows each has, the less often B is read from memory; where there are few, columns are cut
    // last, because A is packed again for each block of them.
    int64_t panels = kTaskPanels;
    while (panels > 2 && ceil_div(g.m, panels * kernel.rows) * ceil_div(chunk, kTaskColumns) < kTasks) panels /= 2;
    rows = std::min(ceil_div(g.m, kernel.rows), panels) * kernel.rows;
    const int64_t row_blocks = ceil_div(g.m, rows),
                  wanted = std::max(ceil_div(chunk, kTaskColumns), ceil_div(kTasks, row_blocks));
    task_columns = std::clamp<int64_t>(round_up(ceil_div(chunk, wanted), kernel.width), 2 * kernel.width, kTaskColumns);
  }
  const MicroKernel& kernel;
  bool pairs;
  int64_t per_step;  // elements of the depth in a step; a step is 4 bytes of a panel's lane
  int64_t steps;     // of the whole depth
  int64_t depth;     // steps of a block
  int64_t rows;      // of a task
  int64_t task_columns;
  int64_t columns;  // of an inner block
  int64_t chunk;    // columns packed at a time
};

void pack_b(const PackedGemm& g, const Cut& cut, int64_t n0, int64_t first, int64_t last, float* packed) {
  const int64_t w = cut.kernel.width, begin = n0 + first * w, end = std::min(g.n, n0 + last * w);
  pack_panels({g.b.data, g.b.dtype, g.b.ld, g.b.trans}, begin, end - begin, 0, g.k,
              {static_cast<int>(w), true, cut.pairs, cut.kernel.group}, packed + first * cut.steps * w);
}

// A block that stays as it is computed is written to C at once; others come by way of a tile.
bool in_place(const PackedGemm& g) {
  return g.c_dtype == DType::f32 && g.alpha == 1 && !g.bias && !g.row_bias && !g.accumulate;
}

// Biases of a task's columns and rows, in fp32.
struct Biases {
  Biases(const PackedGemm& g, int64_t i0, int64_t rows, int64_t j0, int64_t columns)
      : row(load(g, g.bias, j0, columns, along_row)), column(load(g, g.row_bias, i0, rows, along_column)) {}
  static const float* load(const PackedGemm& g, const void* from, int64_t at, int64_t n, float* to) {
    if (!from) return nullptr;
    convert(g.bias_dtype, static_cast<const char*>(from) + at * size_of(g.bias_dtype), DType::f32, to, n);
    return to;
  }
  float along_row[kTaskColumns], along_column[kMostRows];
  const float *row, *column;  // or null
};

// alpha * tile + bias, stored at or added to C[i0.., j0..].
void finish(const PackedGemm& g, float* tile, int64_t stride, int64_t i0, int64_t rows, int64_t j0, int64_t columns,
            const float* bias, const float* row_bias) {
  const bool direct = g.c_dtype == DType::f32;
  float* out = direct ? static_cast<float*>(g.c) + i0 * g.ldc + j0 : tile;
  const int64_t ld = direct ? g.ldc : stride;
  const float alpha = g.alpha;
  const bool scaled = bias || row_bias || alpha != 1;
  if (scaled || (direct && !g.accumulate)) {
    simd([=, into = g.accumulate ? tile : out, ld = g.accumulate ? stride : ld]() AMP_INLINE {
      for (int64_t i = 0; i < rows; ++i) {
        float* y = into + i * ld;
        const float* x = tile + i * stride;
        if (bias) {
          for (int64_t j = 0; j < columns; ++j) y[j] = alpha * x[j] + bias[j];
        } else if (row_bias) {
          for (int64_t j = 0; j < columns; ++j) y[j] = alpha * x[j] + row_bias[i];
        } else {
          for (int64_t j = 0; j < columns; ++j) y[j] = alpha * x[j];
        }
      }
    });
  }
  if (g.accumulate) {  // what would have been stored, so that the sum is that of two separate steps
    simd([=]() AMP_INLINE {
      for (int64_t i = 0; i < rows; ++i) {
        float* y = out + i * ld;
        const float* x = tile + i * stride;
        for (int64_t j = 0; j < columns; ++j) y[j] += x[j];
      }
    });
  }
  if (direct) return;
  for (int64_t i = 0; i < rows; ++i) {
    convert(DType::f32, tile + i * stride, g.c_dtype,
            static_cast<char*>(g.c) + ((i0 + i) * g.ldc + j0) * size_of(g.c_dtype), columns);
  }
}

// C[i0 .. i0 + rows, j0 .. j1]; packed holds B's panels from column n0.
void task(const PackedGemm& g, const Cut& cut, const float* packed, int64_t n0, int64_t i0, int64_t rows, int64_t j0,
          int64_t j1) {
  const int64_t w = cut.kernel.width, r = cut.kernel.rows, stride = round_up(j1 - j0, w);
  float* pa = thread_panels(round_up(rows, r) * cut.depth, 0);
  float* tile = thread_panels(round_up(rows, r) * stride, 1);
  const PackSource a{g.a.data, g.a.dtype, g.a.ld, !g.a.trans};
  const amx::TileScope scope(cut.kernel.tiles());
  const int64_t whole = in_place(g) && cut.steps > 0 ? (j1 - j0) / w * w : 0;  // columns of panels that are full
  float* const c = whole > 0 ? static_cast<float*>(g.c) + i0 * g.ldc : nullptr;
  const Biases bias(g, i0, rows, j0, j1 - j0);
  // Rows of a block that go by way of the tile, as soon as they are summed up.
  const auto finish_rows = [&](int64_t i, int64_t from, int64_t to) {
    from = std::max(from, j0 + whole);
    if (from < to) {
      finish(g, tile + i * stride + from - j0, stride, i0 + i, std::min(r, rows - i), from, to - from,
             bias.row ? bias.row + from - j0 : nullptr, bias.column ? bias.column + i : nullptr);
    }
  };
  for (int64_t p = 0; p < cut.steps; p += cut.depth) {
    const int64_t steps = std::min(cut.depth, cut.steps - p), at = p * cut.per_step;
    pack_panels(a, i0, rows, at, std::min(steps * cut.per_step, g.k - at),
                {static_cast<int>(r), false, cut.pairs, cut.kernel.group, cut.kernel.tiles()}, pa);
    for (int64_t jb = j0; jb < j1; jb += cut.columns) {
      const int64_t end = std::min(j1, jb + cut.columns);
      for (int64_t i = 0; i < rows; i += r) {
        for (int64_t j = jb; j < end; j += w) {
          const bool full = j < j0 + whole;
          cut.kernel.run(steps, static_cast<int>(std::min(r, rows - i)), static_cast<int>(std::min(w, j1 - j)),
                         pa + i * steps, packed + (j - n0) * cut.steps + p * w,
                         full ? c + i * g.ldc + j : tile + i * stride + j - j0, full ? g.ldc : stride, p > 0);
        }
        if (p + steps == cut.steps) finish_rows(i, jb, end);
      }
    }
  }
  if (cut.steps > 0) return;
  std::fill(tile, tile + rows * stride, 0.0f);
  for (int64_t i = 0; i < rows; i += r) finish_rows(i, j0, j1);
}

}  // namespace

int64_t PackedGemm::workspace() const {
  const Cut cut(*this);
  return cut.chunk * cut.steps * 4;
}

void PackedGemm::run(void* workspace) const {
  if (m == 0 || n == 0) return;
  const Cut cut(*this);
  float* packed = static_cast<float*>(workspace);
  const bool small = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) < 1e6;
  for (int64_t n0 = 0; n0 < n; n0 += cut.chunk) {
    const int64_t n1 = std::min(n, n0 + cut.chunk), panels = ceil_div(n1 - n0, cut.kernel.width);
    const int64_t row_blocks = ceil_div(m, cut.rows), column_blocks = ceil_div(n1 - n0, cut.task_columns);
    const auto one = [&](int64_t t) {
      const int64_t i0 = t / column_blocks * cut.rows, j0 = n0 + t % column_blocks * cut.task_columns;
      task(*this, cut, packed, n0, i0, std::min(cut.rows, m - i0), j0, std::min(n1, j0 + cut.task_columns));
    };
    if (small) {
      pack_b(*this, cut, n0, 0, panels, packed);
      for (int64_t t = 0; t < row_blocks * column_blocks; ++t) one(t);
    } else {
      parallel_ranges(panels, 2, [&](int64_t b, int64_t e) { pack_b(*this, cut, n0, b, e, packed); });
      parallel_for(row_blocks * column_blocks, one);
    }
  }
}

void PackedGemm::run_here() const {
  if (m == 0 || n == 0) return;
  const Cut cut(*this);
  float* packed = thread_panels(workspace() / 4, 2);
  for (int64_t n0 = 0; n0 < n; n0 += cut.chunk) {
    const int64_t n1 = std::min(n, n0 + cut.chunk);
    pack_b(*this, cut, n0, 0, ceil_div(n1 - n0, cut.kernel.width), packed);
    for (int64_t i0 = 0; i0 < m; i0 += cut.rows) {
      for (int64_t j0 = n0; j0 < n1; j0 += cut.task_columns) {
        task(*this, cut, packed, n0, i0, std::min(cut.rows, m - i0), j0, std::min(n1, j0 + cut.task_columns));
      }
    }
  }
}

}  // namespace amp::cpu
