// Chains of multiply-adds over registers (gemm/fma_peak.cc) for AVX-512, AVX512_BF16 and AMX.
#include <immintrin.h>

#include "backend/cpu/isa/x86/amx_tiles.h"
#include "backend/cpu/isa/x86/bf16_pairs.h"
#include "backend/cpu/isa/x86/kernels.h"

namespace amp::cpu::x86 {

namespace {

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
        const auto pairs = bf16_pairs(_mm512_castps_si512(x));
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

}  // namespace

void avx512_chains(int64_t rounds, float factor, volatile float* out, double* flops) {
  wide_chains<false>(rounds, factor, out, flops);
}
void avx512_bf16_chains(int64_t rounds, float factor, volatile float* out, double* flops) {
  wide_chains<true>(rounds, factor, out, flops);
}

// AMX version of wide_chains(): independent products of pairs of tiles, added to four tiles.
[[gnu::target("amx-tile,amx-bf16")]] void amx_chains(int64_t rounds, float /*factor*/, volatile float* /*out*/,
                                                     double* flops) {
  // One iteration counts as kTileRounds rounds, because a tile product takes at least as long as 16 instructions.
  constexpr int64_t kTiles = 4, kTileRounds = 32;
  amx::begin();
  for (int64_t i = 0; i < rounds; i += kTileRounds) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  amx::end();
  *flops = 2.0 * 16 * 16 * 32 * kTiles * static_cast<double>((rounds + kTileRounds - 1) / kTileRounds);
}

}  // namespace amp::cpu::x86
