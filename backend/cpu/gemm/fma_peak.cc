// Measures the peak multiply-add rate: loops of independent FMA chains over registers, for each SIMD level,
// AVX512_BF16 and AMX.
// The fastest of several short runs counts, which excludes interruptions by other processes.

#include "backend/cpu/gemm/fma_peak.h"

#include <immintrin.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "backend/cpu/gemm/amx_tiles.h"
#include "backend/cpu/vectors.h"
#include "base/amx.h"
#include "base/simd.h"

namespace amp::cpu {

namespace {

constexpr int kChains = 12;  // independent sums: more than latency times throughput on any x86-64

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

// AVX-512 chains of fp32 or of bf16 pairs. The factors stay in registers, because loads from memory could limit the
// loop.
template <bool bf16>
[[gnu::target("avx512f,avx512bf16")]] void wide_chains(int64_t rounds, float factor, volatile float* out,
                                                       double* flops) {
  constexpr int kWide = 16;
  const __m512 x = _mm512_set1_ps(factor), y = _mm512_set1_ps(1 - factor);
  __m512 acc[kWide];
#pragma GCC unroll 16
  // Chains start with different values, because the compiler would merge equal chains.
  for (int c = 0; c < kWide; ++c) acc[c] = _mm512_set1_ps(static_cast<float>(c));
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 16
    for (int c = 0; c < kWide; ++c) {
      if constexpr (bf16) {
        const auto pairs = reinterpret_cast<__m512bh>(_mm512_castps_si512(x));
        acc[c] = _mm512_dpbf16_ps(acc[c], pairs, pairs);
      } else {
        acc[c] = _mm512_fmadd_ps(acc[c], x, y);
      }
    }
  }
  __m512 sum = acc[0];
#pragma GCC unroll 16
  for (int c = 1; c < kWide; ++c) sum = _mm512_add_ps(sum, acc[c]);
  float lanes[16];
  _mm512_storeu_ps(lanes, sum);
  *out = lanes[0];
  *flops = 2.0 * (bf16 ? 32 : 16) * kWide * static_cast<double>(rounds);
}

// AMX version of wide_chains(): independent products of pairs of tiles, added to four tiles.
[[gnu::target("amx-tile,amx-bf16")]] void tile_chains(int64_t rounds, double* flops) {
  // One iteration counts as kTileRounds rounds, because a tile product takes at least as long as 16 instructions.
  constexpr int64_t kTiles = 4, kTileRounds = 32;
  const amx::TileScope scope(true);
  for (int64_t i = 0; i < rounds; i += kTileRounds) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  *flops = 2.0 * 16 * 16 * 32 * kTiles * static_cast<double>((rounds + kTileRounds - 1) / kTileRounds);
}

}  // namespace

double fma_peak(int threads, bool bf16) {
  if (bf16 && !cpu_has_bf16()) return 0;
  constexpr int kRuns = 8;
  constexpr int64_t kRounds = 400000;  // about three milliseconds
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
      if (bf16 && cpu_has_amx()) {
        tile_chains(kRounds, mine);
      } else if (bf16) {
        wide_chains<true>(kRounds, factor, &out, mine);
      } else if (cpu_isa() == Isa::v4) {
        wide_chains<false>(kRounds, factor, &out, mine);
      } else {
        at_level(Chains{kRounds, factor, &out, mine});
      }
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    double all = 0;
    for (const double f : flops) all += f;
    best = std::max(best, all / seconds);
  }
  return best;
}

}  // namespace amp::cpu
