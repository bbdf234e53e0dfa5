// Philox4x32-10, the counter-based generator of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
// A number depends only on (key, counter), not on a state, the device or the order of computation.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace amp {

// <functors>: fused kernels are generated from this text (cmake/functors.cmake)
struct PhiloxBlock {
  uint32_t v[4];

  // Returns v[k % 4] by selection instead of indexing, so that a GPU keeps the block in registers.
  HD uint32_t word(int64_t k) const {
    const uint32_t low = k & 1 ? v[1] : v[0], high = k & 1 ? v[3] : v[2];
    return k & 2 ? high : low;
  }
};

HD inline PhiloxBlock philox4x32(PhiloxBlock counter, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * counter.v[0];
    const uint64_t b = uint64_t{0xCD9E8D57u} * counter.v[2];
    counter = {{static_cast<uint32_t>(b >> 32) ^ counter.v[1] ^ key0, static_cast<uint32_t>(b),
                static_cast<uint32_t>(a >> 32) ^ counter.v[3] ^ key1, static_cast<uint32_t>(a)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}
// </functors>

// Returns four random words for a 64-bit seed (Philox's key) and a 128-bit counter, given as two halves.
HD inline PhiloxBlock philox(uint64_t seed, uint64_t high, uint64_t low) {
  return philox4x32({{static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high),
                      static_cast<uint32_t>(high >> 32)}},
                    static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
}

// Returns a float in [0, 1) with 24 random bits.
HD inline float philox_uniform(uint32_t word) { return static_cast<float>(word >> 8) * 5.9604644775390625e-8f; }

// Returns an integer in [0, n) from 64 random bits. Its probability differs from 1 / n by less than 1 / 2^64.
inline uint64_t philox_below(uint32_t high, uint32_t low, uint64_t n) {
  const uint64_t r = (uint64_t{high} << 32) | low;
  return static_cast<uint64_t>((static_cast<unsigned __int128>(r) * n) >> 64);
}

}  // namespace amp
