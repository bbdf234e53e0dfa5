// Transposes of 16 x 16 floats in registers. Bits are copied unchanged, so other 4-byte types may be passed as
// floats.
#pragma once

#include <utility>

#include "backend/cpu/lanes.h"

namespace amp::cpu {

#ifndef __clang__
// Swaps the off-diagonal S x S squares within each 2S x 2S square.
template <int N, int S, int... J>
AMP_INLINE inline void exchange(typename VectorOf<N>::type (&v)[N], std::integer_sequence<int, J...>) {
  using I = typename IndexOf<N>::type;
  for (int i = 0; i < N; ++i) {
    if (i & S) continue;
    const auto a = v[i], b = v[i | S];
    v[i] = __builtin_shuffle(a, b, I{(J & S ? N + J - S : J)...});
    v[i | S] = __builtin_shuffle(a, b, I{(J & S ? N + J : J + S)...});
  }
}
#endif

// Transposes N x N floats: to(j)[i] = from[i * ld + j]. Rows of `from` from n on count as zeros.
template <int N, class To>
AMP_INLINE inline void transpose(const float* from, int64_t ld, int64_t n, const To& to) {
  using V = typename VectorOf<N>::type;
  V v[N];
  for (int i = 0; i < N; ++i) v[i] = i < n ? *reinterpret_cast<const V*>(from + i * ld) : V{};
#ifdef __clang__
  for (int j = 0; j < N; ++j) {
    for (int i = 0; i < N; ++i) to(j)[i] = v[i][j];
  }
#else
  constexpr auto lanes = std::make_integer_sequence<int, N>();
  exchange<N, 1>(v, lanes);
  exchange<N, 2>(v, lanes);
  if constexpr (N > 4) exchange<N, 4>(v, lanes);
  if constexpr (N > 8) exchange<N, 8>(v, lanes);
  for (int j = 0; j < N; ++j) *reinterpret_cast<V*>(to(j)) = v[j];
#endif
}

// Transposes rows x columns floats (at most 16 each): to(j)[i] = from[i * ld + j] for j < columns and all 16 i. Rows of
// `from` from `rows` on count as zeros.
template <int Lanes, class To>
AMP_INLINE inline void transpose_block(const float* from, int64_t ld, int64_t rows, int64_t columns, const To& to) {
  if (columns < 16) {
    for (int64_t j = 0; j < columns; ++j) {
      float* row = to(j);
      for (int64_t i = 0; i < 16; ++i) row[i] = i < rows ? from[i * ld + j] : 0.0f;
    }
    return;
  }
  for (int64_t i = 0; i < 16; i += Lanes) {
    for (int64_t j = 0; j < 16; j += Lanes) {
      transpose<Lanes>(from + i * ld + j, ld, rows - i, [&](int64_t k) AMP_INLINE { return to(j + k) + i; });
    }
  }
}

}  // namespace amp::cpu
