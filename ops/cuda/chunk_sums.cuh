// Column sums of a matrix whose rows a kernel holds in registers. A block takes chunks of consecutive rows. Each of its
// four warps takes every fourth row and adds it to the warp's sums in shared memory. A chunk's sums are written to
// memory. Chunk c belongs to class c % kChunkClasses. The block that finishes the last chunk of a class adds up the
// sums of its chunks. The block that finishes the last class adds up the sums of all classes. The order of additions is
// that of sums_by_chunks (columns.cuh), so the bits equal those of the separate kernels.
#pragma once

#include "backend/cuda/columns.cuh"
#include "backend/cuda/rows.cuh"
#include "ops/cuda/norm_terms.cuh"

namespace amp::cuda {

struct ChunkSums {
  static constexpr int kMost = 3;
  Ref out[kMost];
  int count = 0;  // number of sums; each has n columns
  bool accumulate = false;
  int64_t n = 0, chunks = 0;
  float* partial = nullptr;  // (chunks, count, n); null: nothing is summed
  float* classes = nullptr;  // (kChunkClasses, count, n)
  uint32_t* done = nullptr;  // counts finished chunks of each class, then finished classes; zero before and after

  static int64_t shared_bytes(int64_t count, int64_t n) { return 4 * kChunkWarps * count * n; }

  HD explicit operator bool() const { return partial != nullptr; }
  // Returns this warp's sums in shared memory, set to zero. Each lane accesses only its own columns, so no
  // synchronization is needed.
  DEV float* begin(const RowTeam& team) const {
    float* const mine = shared_memory<float>() + warp() * count * n;
    for (int k = 0; k < count; ++k) {
      for (int64_t i = 4 * team.first(); i < n; i += 4 * team.step()) store_four(mine + k * n + i, {0, 0, 0, 0});
    }
    return mine;
  }
  // Adds v to the columns i to i + 3 of sum k. mine: the result of begin().
  DEV void add(float* mine, int k, int64_t i, const float (&v)[4]) const {
    Four f = load_four(mine + k * n + i);
    for (int w = 0; w < 4; ++w) f.v[w] += v[w];
    store_four(mine + k * n + i, f);
  }
  // An overload for kernels that do not hold rows in registers. They must compile, but do not call it.
  DEV void add(float*, int, int64_t, const float (&)[1]) const {}

  // Ends a chunk. All threads of the block must call this function after the chunk's last row.
  DEV void end_chunk(int64_t chunk) const {
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
    // From here on each thread handles one column of one sum at a time. More columns would need more registers in the
    // whole kernel.
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
  // Counts the blocks that call this function with `counter`. Returns true in the last of `all` blocks, and resets
  // the counter to zero. The last block observes the stores of the other blocks.
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
