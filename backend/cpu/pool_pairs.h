// Maxima of 2x2 elements at stride 2 where no window leaves the input: the pools of LeNet, VGG and U-Net. What pool.cc
// computes of any window, to the bit, in one pass over each pair of rows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/sliding_window.h"
#include "base/simd.h"

namespace amp::pool_pairs {

inline bool fits(const SlidingWindow& w) {
  const auto pairs = [](const WindowAxis& a) {
    return a.kernel == 2 && a.stride == 2 && a.dilation == 1 && a.pad == 0 && 2 * a.out <= a.in;
  };
  return w[0].in == 1 && w[0].kernel == 1 && w[0].pad == 0 && w[0].out == 1 && pairs(w[1]) && pairs(w[2]);
}

// Of the taps 0 1 / 2 3 the first largest; NaN wins, the last of several.
template <class T, class Tap>
AMP_INLINE inline void pool_plane(const SlidingWindow& w, const T* x, T* y, Tap* taps) {
  const int64_t in = w[2].in, n = w[2].out;
  for (int64_t r = 0; r < w[1].out; ++r, x += 2 * in, y += n, taps += n) {
    const T *const top = x, *const bottom = x + in;
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) {
      T best = top[2 * j];
      int32_t which = 0;
      const T a = top[2 * j + 1], b = bottom[2 * j], c = bottom[2 * j + 1];
      const bool take_a = a > best || a != a;
      best = take_a ? a : best;
      which = take_a ? 1 : which;
      const bool take_b = b > best || b != b;
      best = take_b ? b : best;
      which = take_b ? 2 : which;
      const bool take_c = c > best || c != c;
      y[j] = take_c ? c : best;
      taps[j] = static_cast<Tap>(take_c ? 3 : which);
    }
  }
}

// Each gradient at its tap, all else zero.
template <class T, class Tap>
AMP_INLINE inline void grad_plane(const SlidingWindow& w, const T* dy, const Tap* taps, T* dx) {
  const int64_t in = w[2].in, n = w[2].out;
  for (int64_t r = 0; r < w[1].out; ++r, dx += 2 * in, dy += n, taps += n) {
    T *const top = dx, *const bottom = dx + in;
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) {
      const T g = dy[j] + T(0);  // a sum, as where windows overlap: of -0 it is 0
      const auto t = static_cast<int32_t>(taps[j]);
      top[2 * j] = t < 1 || t > 3 ? g : T(0);
      top[2 * j + 1] = t == 1 ? g : T(0);
      bottom[2 * j] = t == 2 ? g : T(0);
      bottom[2 * j + 1] = t == 3 ? g : T(0);
    }
    std::fill(top + 2 * n, top + in, T(0));
    std::fill(bottom + 2 * n, bottom + in, T(0));
  }
  std::fill_n(dx, (w[1].in - 2 * w[1].out) * in, T(0));
}

}  // namespace amp::pool_pairs
