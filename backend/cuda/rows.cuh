// Kernels over rows of the last axis. One warp processes a short row, one block processes a long
// row.
#pragma once

#include "backend/cuda/launch.cuh"
#include "backend/cuda/ref.cuh"

namespace amp::cuda {

// The threads that share a row. for_each() visits its elements; reductions return the result to every thread.
class RowTeam {
 public:
  DEV RowTeam(bool whole_block)
      : first_(whole_block ? thread_index() : lane()), step_(whole_block ? block_threads() : 32), block_(whole_block) {}
  template <class F>
  DEV void for_each(int64_t n, F f) const {
    for (int64_t i = first_; i < n; i += step_) f(i);
  }
  template <class T, class Op>
  DEV T reduce(T v, T identity, Op op) const {
    return block_ ? block_reduce(v, identity, op, shared_memory<T>()) : warp_reduce(v, op);
  }
  DEV bool leads() const { return first_ == 0; }
  DEV int first() const { return first_; }
  DEV int step() const { return step_; }

 private:
  int first_, step_;
  bool block_;
};

// Calls the body, which has  DEV void operator()(int64_t row, const RowTeam&) const, for every row. All threads of a
// team call it together.
template <class Body>
struct RowKernel {
  static constexpr bool cooperative = true;
  static constexpr int max_threads = 256;
  Body body;
  int64_t rows;
  bool whole_block;
  DEV void operator()() const {
    const RowTeam team(whole_block);
    const int64_t teams = whole_block ? 1 : block_threads() / 32;
    // One loop for both kinds of team, so that the body is compiled once.
    for (int64_t r = block_index() * teams + (whole_block ? 0 : warp()); r < rows; r += grid_blocks() * teams)
      body(r, team);
  }
};
template <class Body>
struct MinBlocks<RowKernel<Body>> : MinBlocks<Body> {};

// Returns the number of threads for a row of length n.
inline int team_size(int64_t n) { return n > 1024 ? 256 : 32; }

template <class Body>
void for_each_row(CudaDevice& d, int64_t rows, int64_t n, const Body& body) {
  if (rows <= 0) return;
  const bool whole_block = team_size(n) > 32;
  const int threads = whole_block ? team_size(n) : static_cast<int>(std::min<int64_t>(4, rows) * 32);
  const int64_t blocks = whole_block ? rows : (rows + threads / 32 - 1) / (threads / 32);
  launch(d, {std::min(blocks, int64_t{d.multiprocessors()} * 32), threads, 32 * 8},
         RowKernel<Body>{body, rows, whole_block});
}

}  // namespace amp::cuda
