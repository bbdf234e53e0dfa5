// Sums down the columns of a matrix that a kernel holds row by row. Its blocks take chunks of consecutive rows; each
// warp takes every fourth row and adds to its own sums in shared memory. A chunk's sums go to memory. The last block of
// a class of chunks adds these up, and the last block of all adds up the classes. The order is that of columns.cuh
// (sums_by_chunks), so the bits equal those of the separate kernels.
#pragma once

#include "backend/cuda/columns.cuh"
#include "backend/cuda/rows.cuh"
#include "ops/cuda/norm_terms.cuh"

namespace amp::cuda {

struct ChunkSums {
  static constexpr int kMost = 3;
  Ref out[kMost];
  int count = 0;  // of sums, each of n
  bool accumulate = false;
  int64_t n = 0, chunks = 0;
  float* partial = nullptr;  // (chunks, count, n); null: nothing is summed
  float* classes = nullptr;  // (kChunkClasses, count, n)
  uint32_t* done = nullptr;  // chunks of each class, classes; zero before and after

  static int64_t shared_bytes(int64_t count, int64_t n) { return 4 * kChunkWarps * count * n; }

  HD explicit operator bool() const { return partial != nullptr; }
  // Returns this warp's sums. Each lane owns the columns that it holds, so no synchronization is needed.
  DEV float* begin(const RowTeam& team) const {
    float* const mine = shared_memory<float>() + warp() * count * n;
    for (int k = 0; k < count; ++k) {
      for (int64_t i = 4 * team.first(); i < n; i += 4 * team.step()) store_four(mine + k * n + i, {0, 0, 0, 0});
    }
    return mine;
  }
  // Four neighbors, columns from i on.
  DEV void add(float* mine, int k, int64_t i, const float (&v)[4]) const {
    Four f = load_four(mine + k * n + i);
    for (int w = 0; w < 4; ++w) f.v[w] += v[w];
    store_four(mine + k * n + i, f);
  }
  // Not called: rows that are not held have no sums here.
  DEV void add(float*, int, int64_t, const float (&)[1]) const {}

  // Ends a chunk; call it after the chunk's last row with all threads of the block.
  DEV void meet(int64_t chunk) const {
    const float* const warps = shared_memory<float>();
    const int64_t cells = count * n;
    sync_threads();
    each(cells, [&](int64_t i) {
      const Four a = load_four(warps + i), b = load_four(warps + cells + i), c = load_four(warps + 2 * cells + i),
                 d = load_four(warps + 3 * cells + i);
      store_four(partial + chunk * cells + i, plus(plus(a, c), plus(b, d)));
    });
    const int64_t kind = chunk % kChunkClasses, members = (chunks - kind + kChunkClasses - 1) / kChunkClasses;
    if (!last_of(done + kind, members)) return;
    // One cell a thread from here on: more registers would be charged to the whole kernel.
    for (int64_t i = thread_index(); i < cells; i += block_threads()) {
      float sum = 0;
      for (int64_t c = kind; c < chunks; c += kChunkClasses) sum += published(partial + c * cells + i);
      classes[kind * cells + i] = sum;
    }
    const int64_t kinds = chunks < kChunkClasses ? chunks : kChunkClasses;
    if (!last_of(done + kChunkClasses, kinds)) return;
    for (int64_t i = thread_index(); i < cells; i += block_threads()) {
      float v[kChunkClasses];
      unrolled<kChunkClasses>([&](auto k) { v[k] = k < kinds ? published(classes + k * cells + i) : 0.0f; });
      unrolled<8>([&](auto k) { v[k] += v[k + 8]; });
      unrolled<4>([&](auto k) { v[k] += v[k + 4]; });
      unrolled<2>([&](auto k) { v[k] += v[k + 2]; });
      const int64_t k = quotient(i, n), column = i - k * n;
      const Ref& to = out[k];
      const float sum = v[0] + v[1];
      store(to, column, accumulate ? load<float>(to, column) + sum : sum);
    }
  }

 private:
  struct Four {
    float v[4];
  };
  static DEV Four plus(const Four& a, const Four& b) {
    return {{a.v[0] + b.v[0], a.v[1] + b.v[1], a.v[2] + b.v[2], a.v[3] + b.v[3]}};
  }
  static DEV Four load_four(const float* at) {
    const FourWords w = *reinterpret_cast<const FourWords*>(at);
    return {{bits_to_float(w.w[0]), bits_to_float(w.w[1]), bits_to_float(w.w[2]), bits_to_float(w.w[3])}};
  }
  static DEV void store_four(float* at, const Four& f) {
    *reinterpret_cast<FourWords*>(at) =
        FourWords{{float_to_bits(f.v[0]), float_to_bits(f.v[1]), float_to_bits(f.v[2]), float_to_bits(f.v[3])}};
  }
  template <class F>
  static DEV void each(int64_t cells, const F& f) {
    for (int64_t i = 4 * thread_index(); i < cells; i += 4 * block_threads()) f(i);
  }
  // Whether this block is the last of `all` blocks to arrive with its stores. If so, resets the counter to zero.
  static DEV bool last_of(uint32_t* counter, int64_t all) {
    int* const last = shared_memory<int>();
    publish();
    sync_threads();
    if (thread_index() == 0) {
      *last = count_up(counter) + 1 == static_cast<uint32_t>(all) ? 1 : 0;
      if (*last != 0) *counter = 0;
    }
    sync_threads();
    const bool mine = *last != 0;
    sync_threads();
    publish();
    return mine;
  }
};

}  // namespace amp::cuda
