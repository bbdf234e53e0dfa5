// The dialect in which CUDA kernels are written: a small part of CUDA C++.
//
// nvcc compiles the kernels for the device. Any other compiler compiles them for the emulator (emulator.h), which runs
// the same kernels on the CPU, block by block, so that they are tested on machines without a GPU.
//
// A kernel is a struct that holds its arguments. Its call operator is executed by each thread:
//
//   struct Scale {
//     float* x; int64_t n;
//     DEV void operator()() const { for (int64_t i = global_index(); i < n; i += global_threads()) x[i] *= 2; }
//   };
//   launch(device, {blocks, threads}, Scale{x, n});
//
// A kernel that synchronizes its threads (sync_threads, shuffles, reductions) has a member
//   static constexpr bool cooperative = true;
// All threads of a block must reach every synchronization point.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/dtype.h"

#ifdef __CUDACC__
#define DEV __device__ __forceinline__
#define ROLLED _Pragma("unroll 1")
#define DEV_LAMBDA __device__
#else
#define DEV inline
#define ROLLED
#define DEV_LAMBDA
#include "backend/cuda/emulator.h"
#endif

// <device>: cmake/functors.cmake copies this section into generated kernels
namespace amp::cuda {

class CudaDevice;

struct Grid {
  int64_t blocks = 1;
  int threads = 256;   // number of threads per block, a multiple of 32
  int64_t shared = 0;  // bytes of dynamic shared memory
};

#ifdef __CUDACC__

DEV int thread_index() { return static_cast<int>(threadIdx.x); }
DEV int block_threads() { return static_cast<int>(blockDim.x); }
DEV int64_t block_index() { return blockIdx.x; }
DEV int64_t grid_blocks() { return gridDim.x; }
DEV void sync_threads() { __syncthreads(); }
template <class T>
DEV T shuffle_xor(T v, int mask) {
  return __shfl_xor_sync(0xffffffffu, v, mask);
}
template <class T>
DEV T shuffle(T v, int lane) {
  return __shfl_sync(0xffffffffu, v, lane);
}
DEV unsigned ballot(bool b) { return __ballot_sync(0xffffffffu, b); }
template <class T>
DEV T* shared_memory() {
  extern __shared__ __align__(16) unsigned char amp_shared[];
  return reinterpret_cast<T*>(amp_shared);
}
DEV int lowest_bit(unsigned m) { return __ffs(static_cast<int>(m)) - 1; }
DEV void atomic_max(int32_t* at, int32_t v) { atomicMax(at, v); }

#else

inline int thread_index() { return emulator::self().thread; }
inline int block_threads() { return emulator::self().threads; }
inline int64_t block_index() { return emulator::self().block; }
inline int64_t grid_blocks() { return emulator::self().blocks; }
inline void sync_threads() { emulator::sync_block(); }
template <class T>
T shuffle_xor(T v, int mask) {
  return emulator::exchange(v, (thread_index() & 31) ^ mask);
}
template <class T>
T shuffle(T v, int lane) {
  return emulator::exchange(v, lane);
}
inline unsigned ballot(bool b) { return emulator::ballot(b); }
template <class T>
T* shared_memory() {
  return static_cast<T*>(emulator::self().shared);
}
inline int lowest_bit(unsigned m) { return __builtin_ffs(static_cast<int>(m)) - 1; }
inline void atomic_max(int32_t* at, int32_t v) { *at = *at < v ? v : *at; }

#endif

DEV int64_t global_index() { return block_index() * block_threads() + thread_index(); }
DEV int64_t global_threads() { return grid_blocks() * block_threads(); }
DEV int lane() { return thread_index() & 31; }
DEV int warp() { return thread_index() >> 5; }

struct Sum {
  template <class T>
  DEV T operator()(T a, T b) const {
    return a + b;
  }
};
struct Product {
  template <class T>
  DEV T operator()(T a, T b) const {
    return a * b;
  }
};
// The results of Maximum and Minimum are NaN if an operand is NaN.
struct Maximum {
  template <class T>
  DEV T operator()(T a, T b) const {
    return a != a || a > b ? a : b;
  }
};
struct Minimum {
  template <class T>
  DEV T operator()(T a, T b) const {
    return a != a || a < b ? a : b;
  }
};

// Reduces over a warp and returns the result to every lane. The order of the operations is fixed.
template <class T, class Op>
DEV T warp_reduce(T v, Op op) {
  for (int mask = 16; mask > 0; mask >>= 1) {
    const T other = shuffle_xor(v, mask);
    v = (lane() & mask) == 0 ? op(v, other) : op(other, v);
  }
  return v;
}

// Reduces over a block and returns the result to every thread. scratch: 32 elements of shared memory, which may be
// reused after the call.
template <class T, class Op>
DEV T block_reduce(T v, T identity, Op op, T* scratch) {
  v = warp_reduce(v, op);
  if (block_threads() <= 32) return v;
  if (lane() == 0) scratch[warp()] = v;
  sync_threads();
  v = lane() < block_threads() / 32 ? scratch[lane()] : identity;
  v = warp_reduce(v, op);
  sync_threads();
  return v;
}

}  // namespace amp::cuda
// </device>
