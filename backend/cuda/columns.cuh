// Reduces the columns of `outer` matrices (rows, columns), for bias gradients, gradients of normalization weights, and
// statistics. Neighboring threads read neighboring columns. If there are few columns and many rows, the rows are
// divided into splits, which different blocks reduce. The last block that finishes a group of columns joins (adds up)
// the group's splits. Generated kernels join them in a second launch, in the same order. The order of every summation
// depends only on the shape.
//
// A Body defines the summands:
//
// clang-format off
//   using Value;
//   static constexpr int kSums, kWidth;              kSums results per column; a thread has kWidth neighboring columns
//   Value identity() const;
//   Value combine(Value, Value) const;
//   Context begin(column) const;                     data common to all rows of a column
//   Loaded fetch(outer, row, column) const;          only reads memory (raw.cuh)
//   void add(Value (&acc)[kSums][kWidth], const Loaded&, const Context&) const;
//   void store(int sum, int64_t cell, Value) const;  cell: outer * columns + column
// clang-format on
#pragma once

#include "backend/cpu/workspace.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/raw.cuh"

// <device>: cmake/functors.cmake copies this section into generated kernels
namespace amp::cuda {

struct ColumnTiles {
  int64_t outer = 1, rows = 0, columns = 0;
  int lanes = 1, threads = 256;  // threads of a block: along the columns, and in total
  int64_t across = 1;            // number of blocks along the columns
  int64_t splits = 1, split_rows = 0;

  HD int64_t count() const { return outer * across * splits; }
};

}  // namespace amp::cuda
// </device>

namespace amp::cuda {

// Returns the tiles of a reduction; the caller sets the splits. width: columns per thread. lanes: the maximum number of
// threads along the columns, a power of two. threads: the maximum number of threads per block.
inline ColumnTiles column_block(int64_t outer, int64_t rows, int64_t columns, int width, int lanes, int threads) {
  ColumnTiles t{outer, rows, columns};
  while (lanes > 1 && lanes / 2 * width >= columns) lanes /= 2;
  t.lanes = lanes;
  t.threads = threads;
  while (t.threads > 32 && t.threads / 2 / lanes >= rows) t.threads /= 2;
  t.across = (columns + lanes * width - 1) / (lanes * width);
  return t;
}

// For shapes with sums_by_chunks(), sums are added in the order of a kernel whose warps hold whole rows
// (ops/cuda/chunk_sums.cuh). A block sums a chunk of rows, kChunkWarps rows at a time. kChunkClasses threads then join
// the chunks. The number of rows in a chunk depends only on the total number of rows.
constexpr int kChunkWarps = 4, kChunkClasses = 16;
constexpr int64_t kMostChunks = 256;
inline bool sums_by_chunks(int64_t outer, int64_t rows, int64_t columns) {
  return outer == 1 && columns % 4 == 0 && columns >= 128 && columns <= 1024 && rows > 4 * kChunkWarps;
}
inline int64_t chunk_rows(int64_t rows) {
  const int64_t least = 4 * kChunkWarps, even = (rows + kMostChunks - 1) / kMostChunks;
  return std::max(least, (even + kChunkWarps - 1) / kChunkWarps * kChunkWarps);
}

// Returns the tiles of a reduction, including the splits. lanes: as for column_block().
inline ColumnTiles column_tiles(int64_t outer, int64_t rows, int64_t columns, int width, int lanes) {
  const bool chunks = sums_by_chunks(outer, rows, columns);
  ColumnTiles t = column_block(outer, rows, columns, width, chunks ? 32 : lanes, chunks ? 32 * kChunkWarps : 256);
  const int64_t abreast = t.threads / t.lanes;
  // Aims at about a thousand blocks while each thread has eight rows or more. The number must not depend on the device,
  // because it determines the bits.
  t.splits = std::max<int64_t>(
      1, std::min((1024 + outer * t.across - 1) / std::max<int64_t>(1, outer * t.across), rows / (abreast * 8)));
  t.split_rows = chunks ? chunk_rows(rows) : (rows + t.splits - 1) / t.splits;
  t.splits = std::max<int64_t>(1, t.split_rows > 0 ? (rows + t.split_rows - 1) / t.split_rows : 1);
  return t;
}

// Returns the tiles of the reduction that joins the splits of `of`. Its rows are the splits, its columns are the cells
// of `of` (outer * columns), and its `outer` is the number of the body's sums.
inline ColumnTiles join_tiles(int64_t sums, const ColumnTiles& of) {
  const bool chunks = sums_by_chunks(of.outer, of.rows, of.columns);
  const int threads = chunks ? 32 * kChunkWarps : 256;
  ColumnTiles t =
      column_block(sums, of.splits, of.outer * of.columns, 1, chunks ? threads / kChunkClasses : 32, threads);
  t.splits = 1;
  t.split_rows = t.rows;
  return t;
}

}  // namespace amp::cuda

// <device>: cmake/functors.cmake copies this section into generated kernels
namespace amp::cuda {

template <class Body>
struct ColumnKernel {
  static constexpr bool cooperative = true;
  static constexpr int max_threads = 256;
  using T = typename Body::Value;
  static constexpr int K = Body::kSums, W = Body::kWidth;
  Body body;
  ColumnTiles tiles;
  T* partial;  // (K, splits, outer * columns); null: body.store() receives the sums

  DEV void operator()() const {
    for (int64_t t = block_index(); t < tiles.count(); t += grid_blocks()) tile(t);
  }
  DEV void tile(int64_t t) const {
    const int x = thread_index() % tiles.lanes, y = thread_index() / tiles.lanes,
              abreast = block_threads() / tiles.lanes;
    const int64_t rest = quotient(t, tiles.across), split = quotient(rest, tiles.outer),
                  outer = rest - split * tiles.outer;
    const int64_t column = ((t - rest * tiles.across) * tiles.lanes + x) * W;
    const bool mine = column < tiles.columns;
    T acc[K][W];
    for (int k = 0; k < K; ++k) {
      for (int w = 0; w < W; ++w) acc[k][w] = body.identity();
    }
    if (mine) {
      const int64_t begin = split * tiles.split_rows, after = begin + tiles.split_rows;
      add_rows(acc, outer, column, begin + y, after < tiles.rows ? after : tiles.rows, abreast);
    }
    unrolled<K>([&](auto k) {
      meet(acc[k], x, y, abreast);
      if (y > 0 || !mine) return;
      unrolled<W>([&](auto w) {
        const int64_t cells = tiles.outer * tiles.columns, cell = outer * tiles.columns + column + w;
        if (partial)
          partial[(k * tiles.splits + split) * cells + cell] = acc[k][w];
        else
          body.store(k, cell, acc[k][w]);
      });
    });
  }

 private:
  // Adds the rows `row`, `row + step`, ... below `end` to acc. Keeps four loads in flight.
  DEV void add_rows(T (&acc)[K][W], int64_t outer, int64_t column, int64_t row, int64_t end, int64_t step) const {
    const auto context = body.begin(column);
    for (; row + 3 * step < end; row += 4 * step) {
      typename Body::Loaded v[4];
      unrolled<4>([&](auto u) { v[u] = body.fetch(outer, row + u * step, column); });
      unrolled<4>([&](auto u) { body.add(acc, v[u], context); });
    }
    for (; row < end; row += step) body.add(acc, body.fetch(outer, row, column), context);
  }

  // Combines the sums of all threads of a column. The threads with y = 0 receive the result.
  DEV void meet(T (&acc)[W], int x, int y, int abreast) const {
    T* const scratch = shared_memory<T>();
    const int all = block_threads();
    unrolled<W>([&](auto w) { scratch[w * all + thread_index()] = acc[w]; });
    sync_threads();
    for (int s = abreast / 2; s > 0; s /= 2) {
      if (y < s) {
        unrolled<W>([&](auto w) {
          acc[w] = body.combine(acc[w], scratch[w * all + (y + s) * tiles.lanes + x]);
          scratch[w * all + thread_index()] = acc[w];
        });
      }
      sync_threads();
    }
  }
};

}  // namespace amp::cuda
// </device>

namespace amp::cuda {

template <class Body>
struct MinBlocks<ColumnKernel<Body>> : MinBlocks<Body> {};

// A Body that joins the splits of a reduction in a separate launch.
template <class Body>
struct JoinSplits {
  using Value = typename Body::Value;
  static constexpr int kSums = 1, kWidth = 1;
  struct Context {};
  using Loaded = Value;
  Body body;
  const Value* partial;
  int64_t splits, cells;
  DEV Value identity() const { return body.identity(); }
  DEV Value combine(Value a, Value b) const { return body.combine(a, b); }
  DEV Context begin(int64_t) const { return {}; }
  DEV Value fetch(int64_t sum, int64_t split, int64_t cell) const {
    return partial[(sum * splits + split) * cells + cell];
  }
  DEV void add(Value (&acc)[1][1], const Value& v, const Context&) const { acc[0][0] = combine(acc[0][0], v); }
  DEV void store(int, int64_t i, Value v) const {
    const int64_t sum = quotient(i, cells);
    body.store(static_cast<int>(sum), i - sum * cells, v);
  }
};

// A memory fence. Threads that read a store made after the fence also observe this thread's stores before the fence.
DEV void publish() {
#ifdef __CUDA_ARCH__
  __threadfence();
#endif
}
// Increments the counter and returns its previous value.
DEV uint32_t count_up(uint32_t* at) {
#ifdef __CUDA_ARCH__
  return atomicAdd(at, 1u);
#else
  return (*at)++;
#endif
}
// Returns a value that another block has published. The volatile loads do not use stale copies in this block's cache.
template <class T>
DEV T published(const T* at) {
#ifdef __CUDA_ARCH__
  static_assert(sizeof(T) % 4 == 0);
  T v;
  for (size_t i = 0; i < sizeof(T) / 4; ++i)
    reinterpret_cast<uint32_t*>(&v)[i] = reinterpret_cast<const volatile uint32_t*>(at)[i];
  return v;
#else
  return *at;
#endif
}

// Reduces and joins in one launch. The last of the blocks that share a group of columns joins the group's splits, in
// the order of JoinSplits.
template <class Body>
struct JoiningColumnKernel {
  static constexpr bool cooperative = true;
  static constexpr int max_threads = 256;
  using T = typename Body::Value;
  ColumnKernel<Body> first;
  uint32_t* done;      // number of finished blocks per group of columns; zero before and after a launch
  int lanes, abreast;  // when joining: threads along the columns, and threads that add up a column's splits
  bool chunks;         // true if sums_by_chunks(): each thread adds four classes of splits

  DEV void operator()() const {
    const ColumnTiles& tiles = first.tiles;
    for (int64_t t = block_index(); t < tiles.count(); t += grid_blocks()) {
      first.tile(t);
      publish();
      sync_threads();
      const int64_t groups = tiles.outer * tiles.across, group = t - quotient(t, groups) * groups;
      int* const last = shared_memory<int>();
      if (thread_index() == 0) *last = count_up(done + group) + 1 == static_cast<uint32_t>(tiles.splits) ? 1 : 0;
      sync_threads();
      const bool mine = *last != 0;
      sync_threads();
      if (!mine) continue;
      publish();
      if (chunks)
        join<kChunkClasses / kChunkWarps>(group);
      else
        join<1>(group);
      if (thread_index() == 0) done[group] = 0;
    }
  }

 private:
  // Joins the splits of a group of columns. Split s is in class s % (own * abreast). The splits of a class are added in
  // order. The classes are then combined in a tree.
  template <int own>
  DEV void join(int64_t group) const {
    const ColumnTiles& tiles = first.tiles;
    const Body& body = first.body;
    const int lane = thread_index() % lanes, y = thread_index() / lanes;
    const int64_t outer = quotient(group, tiles.across), cells = tiles.outer * tiles.columns;
    const int64_t begin = (group - outer * tiles.across) * tiles.lanes * Body::kWidth;
    const int64_t wide = begin + tiles.lanes * Body::kWidth, end = wide < tiles.columns ? wide : tiles.columns;
    T* const scratch = shared_memory<T>();
    for (int k = 0; k < Body::kSums; ++k) {
      for (int64_t from = begin; from < end; from += lanes) {
        const int64_t column = from + lane, cell = outer * tiles.columns + column;
        const bool adds = column < end && y < abreast;
        T of[own];
        unrolled<own>([&](auto c) { of[c] = body.identity(); });
        for (int64_t s = y; adds && s < tiles.splits; s += own * abreast) {
          unrolled<own>([&](auto c) {
            const int64_t split = s + c * abreast;
            if (split < tiles.splits)
              of[c] = body.combine(of[c], published(first.partial + (k * tiles.splits + split) * cells + cell));
          });
        }
        if constexpr (own == 4) {
          of[0] = body.combine(of[0], of[2]);
          of[1] = body.combine(of[1], of[3]);
          of[0] = body.combine(of[0], of[1]);
        }
        T acc = of[0];
        scratch[thread_index()] = acc;
        sync_threads();
        for (int half = abreast / 2; half > 0; half /= 2) {
          if (y < half) {
            acc = body.combine(acc, scratch[(y + half) * lanes + lane]);
            scratch[thread_index()] = acc;
          }
          sync_threads();
        }
        if (adds && y == 0) body.store(k, cell, acc);
      }
    }
  }
};
template <class Body>
struct MinBlocks<JoiningColumnKernel<Body>> : MinBlocks<Body> {};

template <class Body, class K>
void launch_columns(CudaDevice& d, const ColumnTiles& t, const K& k) {
  const int64_t shared = t.threads * Body::kWidth * static_cast<int64_t>(sizeof(typename Body::Value));
  launch(d, {std::min(t.count(), int64_t{d.multiprocessors()} * 64), t.threads, shared}, k);
}
template <class Body>
void launch_columns(CudaDevice& d, const ColumnTiles& t, const ColumnKernel<Body>& k) {
  launch_columns<Body, ColumnKernel<Body>>(d, t, k);
}

// Returns a kernel that reduces the columns of `outer` matrices (rows, columns). Used in prepare functions
// (backend/cpu/workspace.h): takes workspace from carver, and returns an empty Kernel while carver.measuring().
template <class Body>
Kernel reduce_columns(const KernelArgs& a, Carver& carver, int64_t outer, int64_t rows, int64_t columns,
                      const Body& body, int lanes = 32) {
  using T = typename Body::Value;
  constexpr int K = Body::kSums;
  const ColumnTiles tiles = column_tiles(outer, rows, columns, Body::kWidth, lanes);
  const int64_t cells = outer * columns;
  T* const partial = tiles.splits > 1 ? carver.take<T>(K * tiles.splits * cells) : nullptr;
  if (carver.measuring()) return {};
  CudaDevice& d = device_of(a);
  if (cells == 0) return [] {};
  const ColumnKernel<Body> first{body, tiles, partial};
  if (tiles.splits == 1) return [&d, first] { launch_columns(d, first.tiles, first); };
  const bool chunks = sums_by_chunks(outer, rows, columns);
  const ColumnTiles join = join_tiles(K, tiles);
  const DeviceMemory done = d.allocate(4 * tiles.outer * tiles.across);
  const JoiningColumnKernel<Body> k{first, static_cast<uint32_t*>(done.get()), chunks ? 32 : join.lanes,
                                    chunks ? kChunkWarps : join.threads / join.lanes, chunks};
  return [&d, k, done] { launch_columns<Body>(d, k.first.tiles, k); };
}

}  // namespace amp::cuda
