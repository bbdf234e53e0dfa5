// Measures the peak multiply-add rate: loops of independent FMA chains over registers, compiled for the SIMD level
// or written for the instruction set (isa_kernels.h).
// The fastest of several short runs counts, which excludes interruptions by other processes.

#include "backend/cpu/gemm/fma_peak.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "backend/cpu/isa_kernels.h"
#include "backend/cpu/vectors.h"

namespace amp::cpu {

namespace {

// Independent sums; more than the number of FMAs in flight (latency times two FMAs per cycle).
constexpr int kChains = 12;

// acc = acc * x + y converges to y / (1 - x), so nothing overflows or becomes subnormal.
struct Chains {
  template <int N>
  AMP_INLINE void operator()() const {
    typename VectorOf<N>::local acc[kChains], x, y;
    for (int l = 0; l < N; ++l) x[l] = factor, y[l] = 1 - factor;
    for (int c = 0; c < kChains; ++c) acc[c] = y * static_cast<float>(c + 1);
    for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 16
      for (int c = 0; c < kChains; ++c) acc[c] = acc[c] * x + y;
    }
    float sum = 0;
    for (int c = 0; c < kChains; ++c) sum += acc[c][0];
    *out = sum;
    *flops = 2.0 * N * kChains * static_cast<double>(rounds);
  }
  int64_t rounds;
  float factor;
  volatile float* out;
  double* flops;
};

}  // namespace

double fma_peak(int threads, bool bf16) {
  const IsaKernels& isa = isa_kernels();
  if (bf16 && !isa.bf16_chains) return 0;
  constexpr int kRuns = 8;
  constexpr int64_t kRounds = 400000;  // rounds of one run, which take about three milliseconds
  const volatile float opaque = 0.5F;  // hides the value from the compiler
  const float factor = opaque;
  double best = 0;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<double> flops(static_cast<size_t>(threads), 0.0);
    const auto begin = std::chrono::steady_clock::now();
#pragma omp parallel num_threads(threads)
    {
      volatile float out = 0;
      double* const mine = &flops[static_cast<size_t>(omp_get_thread_num())];
      if (const auto chains = bf16 ? isa.bf16_chains : isa.chains)
        chains(kRounds, factor, &out, mine);
      else
        at_level(Chains{kRounds, factor, &out, mine});
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    double all = 0;
    for (const double f : flops) all += f;
    best = std::max(best, all / seconds);
  }
  return best;
}

}  // namespace amp::cpu
