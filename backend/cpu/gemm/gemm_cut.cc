// Tiling of PackedGemm: sizes of tasks and blocks from the shape, the number of threads and cache sizes, and
// whether operands are packed up front, per task, or not at all. The constants were measured; none of them changes
// bits.

#include "backend/cpu/gemm/gemm_cut.h"

#include <algorithm>

namespace amp::cpu {
namespace {

// Maximum number of steps of the depth in a block; kTileDepth: for kernels with AMX tiles.
constexpr int64_t kDepth = 512, kTileDepth = 256;
constexpr int64_t kBlockBytes = 512 << 10;  // bytes of a block's B panels, which should stay in the second-level cache
constexpr int64_t kPackedBytes = 16 << 20;  // bytes of the panels that are packed up front at a time
constexpr int64_t kTasks = 2;               // minimum of tasks per thread, if the shape allows
constexpr int64_t kBlockColumns = 512;      // maximum columns of a block
// Maximum rows of a task: kTaskRows rows or kTaskRowPanels panels, if these have more rows.
constexpr int64_t kTaskRows = 112, kTaskRowPanels = 8;
constexpr int64_t kDeep = 256;         // minimal depth for which packing A up front is faster
constexpr int64_t kTaskColumns = 192;  // maximum columns of a task that packs B's panels

// Returns true if the kernel can read A unpacked: A has the kernel's type, its rows consist of whole steps, and the
// rows do not evict each other from the cache.
bool readable_in_place(const PackedGemm& g, const MicroKernel& kernel) {
  if (!kernel.row_table || g.a.trans) return false;
  if (kernel.pairs ? g.a.ld % 2 != 0 || g.k % 2 != 0 : g.a.dtype != DType::f32) return false;
  return std::min<int64_t>(kernel.rows, g.m) <= most_stored_rows(kernel.pairs ? g.a.ld / 2 : g.a.ld);
}

// Returns the number of tasks for these panels; a task has at most `full` panels. Each thread gets the same number of
// tasks, which are as large as possible, because each task reads the other operand from memory once.
int64_t equal_tasks(int64_t panels, int64_t full, int64_t wanted, int64_t threads) {
  const int64_t most = ceil_div(panels, full) < wanted ? std::max<int64_t>(1, full / 2) : full;
  return std::min(panels, round_up(ceil_div(panels, most), threads));
}

}  // namespace

GemmCut::GemmCut(const PackedGemm& g, int64_t threads)
    : kernel(panel_kernel(g.a.dtype == DType::bf16 && g.b.dtype == DType::bf16)), per_step(kernel.pairs ? 2 : 1) {
  steps = round_up(ceil_div(g.k, per_step), kernel.group);
  depth = steps ? round_up(ceil_div(steps, ceil_div(steps, kernel.tiles() ? kTileDepth : kDepth)), kernel.group) : 0;
  columns = std::clamp<int64_t>(kBlockBytes / 4 / std::max<int64_t>(depth, 1) / kernel.width, 2, 16) * kernel.width;
  const bool stored = readable_in_place(g, kernel);
  const bool wide =
      stored ? g.n > g.m : g.n >= 2 * g.m && g.k >= kDeep && round_up(g.m, kernel.rows) * steps * 4 <= kPackedBytes;
  a = stored ? Panels::stored : wide ? Panels::before : Panels::task;
  b = wide ? Panels::task : Panels::before;
  keeps_sums = !sums_in_c(g) && !stored && depth < steps;
  const int64_t row_panels = ceil_div(g.m, kernel.rows), wanted = threads > 1 ? kTasks * threads : 1;
  packed_steps = steps;
  if (wide) {
    chunk = g.n;
    column_tasks = equal_tasks(ceil_div(g.n, kernel.width), kTaskColumns / kernel.width, wanted, threads);
    row_tasks = std::clamp<int64_t>(wanted / std::max<int64_t>(column_tasks, 1), 1, row_panels);
    return;
  }
  const int64_t fit = kPackedBytes / 4 / std::max<int64_t>(steps, 1) / kBlockColumns * kBlockColumns;
  chunk = std::min(round_up(g.n, kernel.width), std::max(kBlockColumns, fit));
  // If C itself keeps the sums, B can be packed in parts of the depth.
  if (fit == 0 && sums_in_c(g) && g.n % kernel.width == 0) {
    chunk = std::min(g.n, 2 * kBlockColumns);
    packed_steps = std::min(steps, std::max<int64_t>(1, kPackedBytes / 4 / chunk / depth) * depth);
  }
  // With few rows, columns are divided among tasks too, and A is packed again for each group of columns.
  row_tasks = equal_tasks(row_panels, std::max(kTaskRowPanels, kTaskRows / kernel.rows), wanted, threads);
  column_tasks =
      std::clamp<int64_t>(wanted / std::max<int64_t>(row_tasks, 1), 1, ceil_div(chunk, int64_t{2} * kernel.width));
  if (keeps_sums) column_tasks = std::max(column_tasks, ceil_div(chunk, kBlockColumns));
}

int64_t GemmCut::row(const PackedGemm& g, int64_t task) const {
  return std::min(g.m, ceil_div(g.m, kernel.rows) * task / row_tasks * kernel.rows);
}

int64_t GemmCut::column(int64_t n, int64_t task) const {
  return std::min(n, ceil_div(n, kernel.width) * task / column_tasks * kernel.width);
}

int64_t GemmCut::a_floats(const PackedGemm& g) const {
  return a == Panels::before ? round_up(g.m, kernel.rows) * steps : 0;
}

int64_t GemmCut::b_floats() const { return b == Panels::before ? chunk * packed_steps : 0; }

int64_t GemmCut::elements(const PackedGemm& g, int64_t p, int64_t deep) const {
  return std::min(deep * per_step, g.k - p * per_step);
}

}  // namespace amp::cpu
