// Kernels for the instructions that every 64-bit ARM CPU has: matrix products with FMLA, transposes for packing,
// dropout masks, and chains of multiply-adds.
#include "backend/cpu/dropout_lanes.h"
#include "backend/cpu/isa/arm/kernels.h"
#include "backend/cpu/isa/arm/micro_kernel.h"

namespace amp::cpu::arm {

namespace {

struct Fmla {
  using Element = float;
  static float32x4_t load(const float* from) { return vld1q_f32(from); }
  template <int Lane>
  static float32x4_t lane(float32x4_t sum, float32x4_t y, float32x4_t x) {
    return vfmaq_laneq_f32(sum, y, x, Lane);
  }
  static float32x4_t scalar(float32x4_t sum, float32x4_t y, float x) { return vfmaq_n_f32(sum, y, x); }
};

// Transposes 4 x 4 elements.
void transpose_4(const float* const from[4], int64_t at, float* to, int64_t width) {
  const float32x4x2_t low = vtrnq_f32(vld1q_f32(from[0] + at), vld1q_f32(from[1] + at)),
                      high = vtrnq_f32(vld1q_f32(from[2] + at), vld1q_f32(from[3] + at));
  vst1q_f32(to, vcombine_f32(vget_low_f32(low.val[0]), vget_low_f32(high.val[0])));
  vst1q_f32(to + width, vcombine_f32(vget_low_f32(low.val[1]), vget_low_f32(high.val[1])));
  vst1q_f32(to + 2 * width, vcombine_f32(vget_high_f32(low.val[0]), vget_high_f32(high.val[0])));
  vst1q_f32(to + 3 * width, vcombine_f32(vget_high_f32(low.val[1]), vget_high_f32(high.val[1])));
}

// The products of four words and a Philox multiplier, as upper and lower halves.
struct Products {
  uint32x4_t high, low;
};
Products multiply(uint32x4_t x, uint32x4_t by) {
  const uint32x4_t first = vreinterpretq_u32_u64(vmull_u32(vget_low_u32(x), vget_low_u32(by))),
                   last = vreinterpretq_u32_u64(vmull_high_u32(x, by));
  return {vuzp2q_u32(first, last), vuzp1q_u32(first, last)};
}

}  // namespace

const MicroKernel kNeon{kRows, 2 * kLanes, false, kTable<Fmla>.data(), kRowTable<Fmla>.data()};

void transpose_8(const float* const from[8], int64_t n, float* to, int64_t width) {
  for (int64_t p = 0; p < n; p += 4) {
    transpose_4(from, p, to + p * width, width);
    transpose_4(from + 4, p, to + p * width + 4, width);
  }
}

// Computes Philox4x32-10 (base/philox.h) for eight groups at a time. A vector holds one word of four groups; the store
// interleaves the words.
void dropout(const DropoutLanes& d, int64_t groups, float* factor) {
  const uint32x4_t m0 = vdupq_n_u32(0xD2511F53u), m2 = vdupq_n_u32(0xCD9E8D57u), threshold = vdupq_n_u32(d.threshold);
  const uint32x4_t keep = vreinterpretq_u32_f32(vdupq_n_f32(d.keep));
  constexpr uint32_t kFirst[4] = {0, 1, 2, 3};
  uint32x4_t count = vaddq_u32(vdupq_n_u32(d.counter.v[0]), vld1q_u32(kFirst));
  for (int64_t g = 0; g < groups; g += 8, factor += 32) {
    uint32x4_t w[2][4];
    for (auto& half : w) {
      half[0] = count;
      for (int i = 1; i < 4; ++i) half[i] = vdupq_n_u32(d.counter.v[i]);
      count = vaddq_u32(count, vdupq_n_u32(4));
    }
    uint32_t key0 = d.key0, key1 = d.key1;
    for (int round = 0; round < 10; ++round, key0 += 0x9E3779B9u, key1 += 0xBB67AE85u) {
      for (auto& half : w) {
        const Products a = multiply(half[0], m0), b = multiply(half[2], m2);
        half[0] = veorq_u32(veorq_u32(b.high, half[1]), vdupq_n_u32(key0));
        half[2] = veorq_u32(veorq_u32(a.high, half[3]), vdupq_n_u32(key1));
        half[1] = b.low;
        half[3] = a.low;
      }
    }
    for (int h = 0; h < 2; ++h) {
      float32x4x4_t out;
      for (int i = 0; i < 4; ++i) out.val[i] = vreinterpretq_f32_u32(vandq_u32(vcgeq_u32(w[h][i], threshold), keep));
      vst4q_f32(factor + 16 * h, out);
    }
  }
}

void neon_chains(int64_t rounds, float factor, volatile float* out, double* flops) {
  // Independent chains; more than latency times throughput (16 on the widest CPUs).
  constexpr int kChains = 24;
  const float32x4_t x = vdupq_n_f32(factor), y = vdupq_n_f32(1 - factor);
  float32x4_t acc[kChains];
#pragma GCC unroll 24
  for (int c = 0; c < kChains; ++c)
    acc[c] = vdupq_n_f32(static_cast<float>(c));  // different values, because the compiler would merge equal chains
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 24
    for (int c = 0; c < kChains; ++c) acc[c] = vfmaq_f32(acc[c], x, y);
  }
  float32x4_t sum = acc[0];
#pragma GCC unroll 24
  for (int c = 1; c < kChains; ++c) sum = vaddq_f32(sum, acc[c]);
  *out = vaddvq_f32(sum);
  *flops = 2.0 * kLanes * kChains * static_cast<double>(rounds);
}

}  // namespace amp::cpu::arm
