#include "backend/cpu/packed_gemm.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "backend/cpu/micro_kernel.h"
#include "backend/cpu/pack.h"
#include "backend/parallel.h"
#include "base/simd.h"

namespace amp::cpu {
namespace {

constexpr int64_t kDepth = 1024;            // of a block that is summed before the next
constexpr int64_t kBlockBytes = 512 << 10;  // B panels of that depth that stay in the second-level cache
constexpr int64_t kPackedBytes = 16 << 20;  // B packed at a time

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

// Memory that a thread keeps for its panels: grows, then stays.
float* thread_panels(int64_t floats, int which) {
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
  explicit Cut(const PackedGemm& g) : kernel(micro_kernel(g.a.dtype == DType::bf16 && g.b.dtype == DType::bf16)) {
    pairs = kernel.pairs;
    steps = pairs ? ceil_div(g.k, 2) : g.k;
    rows = std::min<int64_t>(round_up(g.m, kernel.rows), kernel.rows * (kernel.rows > 8 ? 4 : 8));
    const int64_t block_depth = std::min(steps, pairs ? kDepth / 2 : kDepth);
    columns =
        std::clamp<int64_t>(kBlockBytes / 4 / std::max<int64_t>(block_depth, 1) / kernel.width, 2, 16) * kernel.width;
    columns = std::min(columns, round_up(g.n, kernel.width));
    chunk = std::min(round_up(g.n, columns),
                     std::max(columns, kPackedBytes / 4 / std::max<int64_t>(steps, 1) / columns * columns));
  }
  const MicroKernel& kernel;
  bool pairs;
  int64_t steps;    // of the whole depth; a step is 4 bytes of a panel's lane
  int64_t rows;     // of a task
  int64_t columns;  // of an inner block
  int64_t chunk;    // columns packed at a time
};

// op(A) lanes are rows; op(B) lanes are columns.
PackSource source_a(const PackedGemm& g) { return {g.a.data, g.a.dtype, g.a.ld, !g.a.trans}; }
PackSource source_b(const PackedGemm& g) { return {g.b.data, g.b.dtype, g.b.ld, g.b.trans}; }

void pack_b(const PackedGemm& g, const Cut& cut, int64_t n0, int64_t panel, float* packed) {
  const int64_t w = cut.kernel.width, at = n0 + panel * w;
  pack_panel(source_b(g), at, static_cast<int>(std::min(w, g.n - at)), static_cast<int>(w), 0, g.k, cut.pairs,
             packed + panel * cut.steps * w);
}

// alpha * tile + bias, stored at C[i0.., j0..].
void finish(const PackedGemm& g, float* tile, int64_t stride, int64_t i0, int64_t rows, int64_t j0, int64_t columns) {
  float bias_row[16 * 32];
  const float* bias = nullptr;
  if (g.bias) {
    convert(g.bias_dtype, static_cast<const char*>(g.bias) + j0 * size_of(g.bias_dtype), DType::f32, bias_row, columns);
    bias = bias_row;
  }
  const bool direct = g.c_dtype == DType::f32;
  float* out = direct ? static_cast<float*>(g.c) + i0 * g.ldc + j0 : tile;
  const int64_t ld = direct ? g.ldc : stride;
  const float alpha = g.alpha;
  if (direct || bias || alpha != 1) {
    simd([=]() AMP_INLINE {
      for (int64_t i = 0; i < rows; ++i) {
        float* y = out + i * ld;
        const float* x = tile + i * stride;
        if (bias) {
          for (int64_t j = 0; j < columns; ++j) y[j] = alpha * x[j] + bias[j];
        } else {
          for (int64_t j = 0; j < columns; ++j) y[j] = alpha * x[j];
        }
      }
    });
  }
  if (direct) return;
  for (int64_t i = 0; i < rows; ++i) {
    convert(DType::f32, tile + i * stride, g.c_dtype,
            static_cast<char*>(g.c) + ((i0 + i) * g.ldc + j0) * size_of(g.c_dtype), columns);
  }
}

// C[i0 .. i0 + rows, n0 + j0 .. n0 + j1]; packed holds B's panels from column n0.
void task(const PackedGemm& g, const Cut& cut, const float* packed, int64_t n0, int64_t i0, int64_t rows, int64_t j0,
          int64_t j1) {
  const int64_t depth = cut.pairs ? kDepth / 2 : kDepth, w = cut.kernel.width, r = cut.kernel.rows;
  float* pa = thread_panels(round_up(rows, r) * std::min(cut.steps, depth), 0);
  float* tile = thread_panels(round_up(rows, r) * cut.columns, 1);
  const PackSource a = source_a(g);
  for (int64_t jb = j0; jb < j1; jb += cut.columns) {
    const int64_t columns = std::min(cut.columns, j1 - jb);
    for (int64_t p = 0; p < cut.steps; p += depth) {
      const int64_t steps = std::min(depth, cut.steps - p), scale = cut.pairs ? 2 : 1;
      if (jb == j0 || cut.steps > depth) {
        for (int64_t i = 0; i < rows; i += r) {
          const int lanes = static_cast<int>(std::min(r, rows - i));
          pack_panel(a, i0 + i, lanes, lanes, p * scale, std::min(steps * scale, g.k - p * scale), cut.pairs,
                     pa + i * steps);
        }
      }
      for (int64_t j = 0; j < columns; j += w) {
        const float* pb = packed + (jb - n0 + j) * cut.steps + p * w;
        for (int64_t i = 0; i < rows; i += r) {
          cut.kernel.run(steps, static_cast<int>(std::min(r, rows - i)), static_cast<int>(std::min(w, columns - j)),
                         pa + i * steps, pb, tile + i * cut.columns + j, cut.columns, p > 0);
        }
      }
    }
    if (cut.steps == 0) std::fill(tile, tile + rows * cut.columns, 0.0f);
    finish(g, tile, cut.columns, i0, rows, jb, columns);
  }
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
  const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const bool small = flops < 1e6;
  for (int64_t n0 = 0; n0 < n; n0 += cut.chunk) {
    const int64_t n1 = std::min(n, n0 + cut.chunk), panels = ceil_div(n1 - n0, cut.kernel.width);
    if (small) {
      for (int64_t p = 0; p < panels; ++p) pack_b(*this, cut, n0, p, packed);
    } else {
      parallel_ranges(panels, 2, [&](int64_t b, int64_t e) {
        for (int64_t p = b; p < e; ++p) pack_b(*this, cut, n0, p, packed);
      });
    }
    const int64_t row_blocks = ceil_div(m, cut.rows), column_blocks = ceil_div(n1 - n0, cut.columns);
    const int64_t splits = small ? 1 : std::clamp<int64_t>(ceil_div(16, row_blocks), 1, column_blocks);
    const int64_t blocks_each = ceil_div(column_blocks, splits);
    const auto one = [&](int64_t t) {
      const int64_t i0 = t / splits * cut.rows, j0 = n0 + t % splits * blocks_each * cut.columns;
      if (j0 < n1)
        task(*this, cut, packed, n0, i0, std::min(cut.rows, m - i0), j0, std::min(n1, j0 + blocks_each * cut.columns));
    };
    if (small) {
      for (int64_t t = 0; t < row_blocks * splits; ++t) one(t);
    } else {
      parallel_for(row_blocks * splits, one);
    }
  }
}

void PackedGemm::run_here() const {
  if (m == 0 || n == 0) return;
  const Cut cut(*this);
  float* packed = thread_panels(workspace() / 4, 2);
  for (int64_t n0 = 0; n0 < n; n0 += cut.chunk) {
    const int64_t n1 = std::min(n, n0 + cut.chunk);
    for (int64_t p = 0; p < ceil_div(n1 - n0, cut.kernel.width); ++p) pack_b(*this, cut, n0, p, packed);
    for (int64_t i0 = 0; i0 < m; i0 += cut.rows) task(*this, cut, packed, n0, i0, std::min(cut.rows, m - i0), n0, n1);
  }
}

}  // namespace amp::cpu
