// Deinterleaving and interleaving of every second, or every fourth, float of a row, as register shuffles.
#pragma once

#include <utility>

#include "backend/cpu/vectors.h"

namespace amp::cpu {

template <int N>
struct IndexOf {
  typedef int32_t type __attribute__((vector_size(N * 4)));
};

// to = the elements J of the concatenation of a and b. Uses references, because vectors wider than the baseline's
// cannot be passed by value. `to` must be a variable, not an element of an array of floats: Clang stores it as aligned.
template <int N, int... J>
AMP_INLINE inline void pick(const typename VectorOf<N>::type& a, const typename VectorOf<N>::type& b,
                            typename VectorOf<N>::type& to) {
#ifdef __clang__
  to = __builtin_shufflevector(a, b, J...);
#else
  to = __builtin_shuffle(a, b, typename IndexOf<N>::type{J...});
#endif
}
template <int N, int... J>
AMP_INLINE inline void unzip(const typename VectorOf<N>::type& a, const typename VectorOf<N>::type& b,
                             typename VectorOf<N>::type& even, typename VectorOf<N>::type& odd,
                             std::integer_sequence<int, J...>) {
  pick<N, 2 * J...>(a, b, even);
  pick<N, (2 * J + 1)...>(a, b, odd);
}
template <int N, int... J>
AMP_INLINE inline void zip(const typename VectorOf<N>::type& even, const typename VectorOf<N>::type& odd,
                           typename VectorOf<N>::type& a, typename VectorOf<N>::type& b,
                           std::integer_sequence<int, J...>) {
  pick<N, (J / 2 + J % 2 * N)...>(even, odd, a);
  pick<N, (N / 2 + J / 2 + J % 2 * N)...>(even, odd, b);
}

// to = x with lanes that are W apart exchanged.
template <int N, int W, int... J>
AMP_INLINE inline void exchange_lanes(const typename VectorOf<N>::type& x, typename VectorOf<N>::type& to,
                                      std::integer_sequence<int, J...>) {
  pick<N, (J ^ W)...>(x, x, to);
}
// Returns all lanes reduced to one number, in a fixed tree: op combines lanes that are N / 2, N / 4, ..., 1 apart.
template <int N, int W = N / 2, class Op>
AMP_INLINE inline float fold(const typename VectorOf<N>::type& x, const Op& op) {
  typename VectorOf<N>::type other;
  exchange_lanes<N, W>(x, other, std::make_integer_sequence<int, N>());
  op(x, other);
  if constexpr (W > 1) {
    return fold<N, W / 2>(other, op);
  } else {
    return other[0];
  }
}

// parts[p] receives N elements: from[p], from[p + Parts], from[p + 2 Parts], ...
template <int N, int Parts>
AMP_INLINE inline void deinterleave(const float* from, typename VectorOf<N>::type (&parts)[Parts]) {
  static_assert(Parts == 2 || Parts == 4);
  using V = typename VectorOf<N>::type;
  constexpr auto lanes = std::make_integer_sequence<int, N>();
  V v[Parts];
  for (int i = 0; i < Parts; ++i) v[i] = *reinterpret_cast<const V*>(from + i * N);
  if constexpr (Parts == 2) {
    unzip<N>(v[0], v[1], parts[0], parts[1], lanes);
  } else {
    V even[2], odd[2];
    for (int i = 0; i < 2; ++i) unzip<N>(v[2 * i], v[2 * i + 1], even[i], odd[i], lanes);
    unzip<N>(even[0], even[1], parts[0], parts[2], lanes);
    unzip<N>(odd[0], odd[1], parts[1], parts[3], lanes);
  }
}

// Reverses deinterleave().
template <int N, int Parts>
AMP_INLINE inline void interleave(const typename VectorOf<N>::type (&parts)[Parts], float* to) {
  static_assert(Parts == 2 || Parts == 4);
  using V = typename VectorOf<N>::type;
  constexpr auto lanes = std::make_integer_sequence<int, N>();
  V v[Parts];
  if constexpr (Parts == 2) {
    zip<N>(parts[0], parts[1], v[0], v[1], lanes);
  } else {
    V even[2], odd[2];
    zip<N>(parts[0], parts[2], even[0], even[1], lanes);
    zip<N>(parts[1], parts[3], odd[0], odd[1], lanes);
    for (int i = 0; i < 2; ++i) zip<N>(even[i], odd[i], v[2 * i], v[2 * i + 1], lanes);
  }
  for (int i = 0; i < Parts; ++i) *reinterpret_cast<V*>(to + i * N) = v[i];
}

}  // namespace amp::cpu
