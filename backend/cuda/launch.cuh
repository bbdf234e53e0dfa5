// Contains launch(), which launches a kernel (thread.cuh), and for_each(), which calls a function for every index.
#pragma once

#include <algorithm>
#include <typeinfo>

#include "backend/cuda/device.h"
#include "backend/cuda/thread.cuh"

namespace amp::cuda {

template <class K, class = void>
struct IsCooperative : std::false_type {};
template <class K>
struct IsCooperative<K, std::void_t<decltype(K::cooperative)>> : std::bool_constant<K::cooperative> {};

// A kernel with a member  static constexpr int max_threads = 256;  is not launched in larger blocks and may use more
// registers.
template <class K, class = void>
struct MaxThreads : std::integral_constant<int, 1024> {};
template <class K>
struct MaxThreads<K, std::void_t<decltype(K::max_threads)>> : std::integral_constant<int, K::max_threads> {};

// A kernel with a member  static constexpr int min_blocks = 2;  gets only so many registers that two blocks fit on a
// multiprocessor. ptxas then spills registers to memory if necessary.
template <class K, class = void>
struct MinBlocks : std::integral_constant<int, 0> {};  // 0: ptxas chooses the number of registers
template <class K>
struct MinBlocks<K, std::void_t<decltype(K::min_blocks)>> : std::integral_constant<int, K::min_blocks> {};

#ifdef __CUDACC__
template <class K>
__global__ void __launch_bounds__(MaxThreads<K>::value, MinBlocks<K>::value) entry(const __grid_constant__ K kernel) {
  kernel();
}
#endif

template <class K>
void launch(CudaDevice& d, const Grid& g, const K& kernel) {
  static_assert(std::is_trivially_copyable_v<K>, "a kernel's arguments are copied bytewise");
  static_assert(sizeof(K) <= 4096, "a kernel's arguments are at most 4 KiB");
  if (g.blocks <= 0) return;
  [[maybe_unused]] constexpr bool cooperative = IsCooperative<K>::value;
  check(g.threads <= MaxThreads<K>::value, "a block has more threads than its kernel's max_threads");
#ifdef __CUDACC__
  entry<K><<<static_cast<unsigned>(g.blocks), static_cast<unsigned>(g.threads), static_cast<size_t>(g.shared),
             static_cast<cudaStream_t>(d.stream())>>>(kernel);
#else
  if (d.computes()) emulator::run({g.blocks, g.threads, g.shared, cooperative}, [&] { kernel(); });
#endif
  d.launched(typeid(K).name(), g.blocks, g.threads);
}

template <class F>
struct ForEach {
  static constexpr int max_threads = 256;  // threads of the largest block that loop_grid() launches
  F f;
  int64_t n;
  DEV void operator()() const {
    for (int64_t i = global_index(); i < n; i += global_threads()) f(i);
  }
};
template <class F>  // without F::min_blocks, a thread may use 64 registers
struct MinBlocks<ForEach<F>> : std::integral_constant<int, MinBlocks<F>::value ? MinBlocks<F>::value : 4> {};

// Returns the grid of a loop over n elements: several times the blocks that fill the device, but no more than there is
// work.
inline Grid loop_grid(const CudaDevice& d, int64_t n) {
  const int threads = n >= 256 ? 256 : 32;
  const int64_t blocks = (n + threads - 1) / threads;
  return {std::max<int64_t>(1, std::min<int64_t>(blocks, int64_t{d.multiprocessors()} * 16)), threads, 0};
}

// Calls f(i) for i in [0, n), in any order, concurrently.
template <class F>
void for_each(CudaDevice& d, int64_t n, const F& f) {
  if (n > 0) launch(d, loop_grid(d, n), ForEach<F>{f, n});
}

}  // namespace amp::cuda
