// Vectorized 2^x for softmax, computed as 2^k 2^(i / n) 2^f. A table in a register contains the n values of 2^(i / n).
// |f| is at most 1 / 2n, so a polynomial of degree 3 is sufficient with n = 16 (AVX-512) and n = 8 (AVX2). SSE uses
// degree 6 without a table (n = 1).
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "backend/cpu/lanes.h"

namespace amp::cpu {

template <int Lanes>
struct Exp2 {
  using V = typename VectorOf<Lanes>::type;
  using I = typename IndexOf<Lanes>::type;
  static constexpr int kBits = Lanes == 16 ? 4 : Lanes == 8 ? 3 : 0;  // number of bits of the table's index

  // The bits of 2^(i / n), minus i in the place of the exponent's fraction, because run() adds k n + i there.
  static constexpr std::array<int32_t, Lanes> kTable = [] {
    constexpr float power[16] = {1.0f,        1.04427373f, 1.09050775f, 1.13878858f, 1.18920708f, 1.24185777f,
                                 1.29683959f, 1.35425556f, 1.41421354f, 1.47682619f, 1.54221082f, 1.61049032f,
                                 1.68179286f, 1.75625217f, 1.8340081f,  1.91520655f};
    std::array<int32_t, Lanes> t{};
    for (int i = 0; i < Lanes; ++i) {
      const int at = kBits ? i : 0;
      t[static_cast<size_t>(i)] = std::bit_cast<int32_t>(power[at << (4 - kBits)]) - (at << (23 - kBits));
    }
    return t;
  }();

  // to = 2^x with a relative error below 1.5e-7 for x from -126 on (the polynomials for n = 16, 8 and 1 contribute
  // 3e-9, 4e-8 and 1e-8). The result is 0 below -127, 2^127 above 127, and NaN for NaN. With Small no input may be
  // above 127. Uses references, because vectors wider than the baseline's cannot be passed by value.
  template <bool Small = false>
  AMP_INLINE static void run(const V& x, V& to) {
    // Floats near magic are 1 / n apart.
    constexpr float low = -127.0f, high = 127.0f, magic = 12582912.0f / (1 << kBits);
    V c = x < low ? V{} + low : x;
    if constexpr (!Small) c = c > high ? V{} + high : c;
    const V shifted = c + magic;
    const V f = c - (shifted - magic);
    V p;
    if constexpr (kBits == 4) {
      p = (5.55050857e-2f * f + 0.240233555f) * f + 0.693147182f;
    } else if constexpr (kBits == 3) {
      p = (5.55080138e-2f * f + 0.240254685f) * f + 0.693147182f;
    } else {
      p = (1.54531634e-4f * f + 1.33908633e-3f) * f + 9.61808302e-3f;
      p = ((p * f + 5.55035695e-2f) * f + 0.240226507f) * f + 0.693147182f;
    }
    const I at = (I)shifted;
    I power_bits;
    table(at, power_bits);
    const V power = (V)(power_bits + (at << (23 - kBits)));
    to = power * (p * f) + power;
  }

 private:
  AMP_INLINE static void table(const I& at, I& to) {
    if constexpr (kBits == 0) {
      to = I{} + kTable[0];
    } else {
      I t;
      for (int i = 0; i < Lanes; ++i) t[i] = kTable[static_cast<size_t>(i)];
#ifdef __clang__
      for (int i = 0; i < Lanes; ++i) to[i] = t[at[i] & (Lanes - 1)];
#else
      to = __builtin_shuffle(t, at);
#endif
    }
  }
};

}  // namespace amp::cpu
