// Kernels for pairs of bf16 with FEAT_BF16: BFDOT multiplies two pairs and adds both products to a sum in fp32, BFCVTN
// rounds. BFDOT treats subnormal numbers as zeros.
#include <arm_neon.h>

#include <array>
#include <utility>

#include "backend/cpu/gemm/micro_kernel.h"
#include "backend/cpu/isa/arm/kernels.h"

// The pragma applies to the rest of the file, at whose end templates are instantiated. It must not apply to the headers
// above, because other files call their functions on CPUs without these instructions.
#pragma GCC target("arch=armv8.2-a+bf16")
#include "backend/cpu/isa/arm/micro_kernel.h"

namespace amp::cpu::arm {

namespace {

bfloat16x8_t pairs(float32x4_t x) { return vreinterpretq_bf16_f32(x); }

struct Bfdot {
  using Element = float;  // a pair of bf16 in 4 bytes
  static float32x4_t load(const float* from) { return vld1q_f32(from); }
  template <int Lane>
  static float32x4_t lane(float32x4_t sum, float32x4_t y, float32x4_t x) {
    return vbfdotq_laneq_f32(sum, pairs(y), pairs(x), Lane);
  }
  static float32x4_t scalar(float32x4_t sum, float32x4_t y, float x) {
    // A single load, which sets the other lane to 0.
    const float32x2_t loaded = vset_lane_f32(x, vdup_n_f32(0), 0);
    return vbfdotq_lane_f32(sum, pairs(y), vreinterpret_bf16_f32(loaded), 0);
  }
};

// Adds products of pairs to Rows x 4 vectors of sums. The sums are added to memory at the end, so that rounding errors
// grow only with the number of products of one call. at(r, i): the address of the pair of row r at step i. b: rows of
// `width` floats.
template <int Rows>
struct Tile {
  static constexpr int kColumns = 4;
  float32x4_t acc[Rows][kColumns];

  void clear() {
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      for (int j = 0; j < kColumns; ++j) acc[r][j] = vdupq_n_f32(0);
    }
  }
  void step(const float* const (&a)[Rows], int64_t i, const float* b) {
    float32x4_t y[kColumns];
    for (int j = 0; j < kColumns; ++j) y[j] = vld1q_f32(b + j * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      for (int j = 0; j < kColumns; ++j) acc[r][j] = Bfdot::scalar(acc[r][j], y[j], a[r][i]);
    }
  }
  void add_to(float* sums, int64_t width) const {
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      for (int j = 0; j < kColumns; ++j) {
        float* const to = sums + r * width + j * kLanes;
        vst1q_f32(to, vaddq_f32(vld1q_f32(to), acc[r][j]));
      }
    }
  }

  void correlate(int64_t width, const float* image, const int64_t* base, const int64_t* offset, int64_t taps,
                 int64_t channels, const float* w, float* sums) {
    clear();
    for (int64_t t = 0; t < taps; ++t) {
      const float* at[Rows];
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) at[r] = image + base[r] + offset[t];
      for (int64_t i = 0; i < channels; ++i, w += width) step(at, i, w);
    }
    add_to(sums, width);
  }
  void add_products(int64_t width, const float* x, const int64_t* base, int64_t pixels, const float* dy, float* sums) {
    clear();
    for (int64_t p = 0; p < pixels; ++p, dy += width) {
      const float* at[Rows];
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) at[r] = x + base[p] + r;
      step(at, 0, dy);
    }
    add_to(sums, width);
  }
};

// Calls fn(tile, row, column) for the tiles of tile_rows(width) rows (conv_channels_pack.h): 6, or 8 if the width is
// 48, or 12.
template <class Fn>
void each_tile(int64_t width, const Fn& fn) {
  for (int64_t j = 0; j < width; j += 4 * kLanes) {
    if (width == 48) {
      for (int64_t r = 0; r < 8; r += 4) fn(Tile<4>(), r, j);
    } else {
      for (int64_t r = 0; r < (width == 64 ? 6 : 12); r += 6) fn(Tile<6>(), r, j);
    }
  }
}

void correlate(int64_t width, const float* image, const int64_t* base, const int64_t* offset, int64_t taps,
               int64_t channels, const float* w, float* sums) {
  each_tile(width, [&](auto tile, int64_t r, int64_t j) {
    tile.correlate(width, image, base + r, offset, taps, channels, w + j, sums + r * width + j);
  });
}
void add_products(int64_t width, const float* x, const int64_t* base, int64_t pixels, const float* dy, float* sums) {
  each_tile(width, [&](auto tile, int64_t r, int64_t j) {
    tile.add_products(width, x + r, base, pixels, dy + j, sums + r * width + j);
  });
}

uint16x8_t rounded(const float* x) {
  return vreinterpretq_u16_bf16(vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(vld1q_f32(x)), vld1q_f32(x + 4)));
}

void round(const float* x, int64_t n, BFloat16* to) {
  for (int64_t i = 0; i < n; i += 8) vst1q_u16(reinterpret_cast<uint16_t*>(to + i), rounded(x + i));
}

void round_pairs(const float* low, const float* high, int64_t n, float* to) {
  for (int64_t i = 0; i < n; i += 8) {
    const uint16x8_t a = rounded(low + i), b = high ? rounded(high + i) : vdupq_n_u16(0);
    vst1q_f32(to + i, vreinterpretq_f32_u16(vzip1q_u16(a, b)));
    vst1q_f32(to + i + 4, vreinterpretq_f32_u16(vzip2q_u16(a, b)));
  }
}

}  // namespace

const MicroKernel kBfdot{kRows, 2 * kLanes, true, kTable<Bfdot>.data(), kRowTable<Bfdot>.data()};
const PairKernels kPairs{round, round_pairs, correlate, add_products};

void bfdot_chains(int64_t rounds, float factor, volatile float* out, double* flops) {
  constexpr int kChains = 24;
  const float32x4_t x = vdupq_n_f32(factor);
  float32x4_t acc[kChains];
#pragma GCC unroll 24
  for (int c = 0; c < kChains; ++c) acc[c] = vdupq_n_f32(static_cast<float>(c));
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 24
    for (int c = 0; c < kChains; ++c) acc[c] = vbfdotq_f32(acc[c], pairs(x), pairs(x));
  }
  float32x4_t sum = acc[0];
#pragma GCC unroll 24
  for (int c = 1; c < kChains; ++c) sum = vaddq_f32(sum, acc[c]);
  *out = vaddvq_f32(sum);
  *flops = 2.0 * 2 * kLanes * kChains * static_cast<double>(rounds);
}

}  // namespace amp::cpu::arm
