// Interpolation of GridSample along one dimension. A tap is a source element that contributes to an output: its index,
// its weight, and the derivative of the weight with respect to the coordinate.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "backend/rounded.h"

namespace amp {

enum SampleMode { kNearest, kLinear, kCubic };
enum SamplePadding { kZeros, kBorder, kReflection };

// The taps of one output along one dimension: index of the source element (-1: padding, which counts as zero), weight,
// and the weight's derivative with respect to the grid's coordinate.
template <class T>
struct SampleTaps {
  int n = 0;
  int64_t index[4];
  T weight[4], slope[4];
};

// Mirrors v into [low, high]. sign receives the derivative: 1, -1, or 0 for an empty range.
template <class T>
HD inline T reflect(T v, T low, T high, T& sign) {
  sign = T(1);
  const T range = high - low;
  if (range <= T(0)) {
    sign = T(0);
    return low;
  }
  if (v >= low && v <= high) return v;
  const bool below = v < low;
  const T past = below ? low - v : v - high, turns = std::floor(past / range),
          rest = rounded_sum(past, -rounded_product(turns, range));
  const bool even = std::fmod(turns, T(2)) == T(0);
  sign = even ? T(-1) : T(1);
  return even == below ? low + rest : high - rest;
}

// Sets the weights w of the four taps and their derivatives s: Keys' cubic kernel with a = -0.75 at the distances 1 +
// r, r, 1 - r and 2 - r.
template <class T>
HD inline void cubic(T r, T* w, T* s) {
  constexpr T a = T(-0.75);
  const auto near = [&](T d) { return ((a + T(2)) * d - (a + T(3))) * d * d + T(1); };
  const auto far = [&](T d) { return ((a * d - T(5) * a) * d + T(8) * a) * d - T(4) * a; };
  const auto near_slope = [&](T d) { return (T(3) * (a + T(2)) * d - T(2) * (a + T(3))) * d; };
  const auto far_slope = [&](T d) { return (T(3) * a * d - T(10) * a) * d + T(8) * a; };
  w[0] = far(r + T(1)), w[1] = near(r), w[2] = near(T(1) - r), w[3] = far(T(2) - r);
  s[0] = far_slope(r + T(1)), s[1] = near_slope(r), s[2] = -near_slope(T(1) - r), s[3] = -far_slope(T(2) - r);
}

template <class T>
HD inline SampleTaps<T> sample_taps(T g, int64_t n, SampleMode mode, SamplePadding padding, bool align) {
  const T size = static_cast<T>(n), low = align ? T(0) : T(-0.5), high = align ? size - T(1) : size - T(0.5);
  T per_unit = align ? (size - T(1)) / T(2) : size / T(2);
  T x = align ? rounded_product(rounded_sum(g, T(1)) / T(2), size - T(1))
              : rounded_sum(rounded_product(rounded_sum(g, T(1)), size), T(-1)) / T(2);
  if (!(std::abs(x) < T(1e9))) x = padding == kZeros ? T(-1e9) : T(0);  // NaN or infinite coordinates count as outside
  if (mode == kNearest) x = std::nearbyint(x);
  if (x < low || x > high) {
    if (padding == kBorder &&
        mode != kCubic) {  // mode cubic clamps each tap instead of the sampling point, so overshoot is kept
      x = std::clamp(x, T(0), size - T(1));
      per_unit = T(0);
    } else if (padding == kReflection) {
      T sign;
      x = reflect(x, low, high, sign);
      per_unit *= sign;
    }
  }
  SampleTaps<T> t;
  int64_t first = static_cast<int64_t>(std::floor(x));
  const T r = x - static_cast<T>(first);
  if (mode == kNearest) {
    t.n = 1;
    t.weight[0] = T(1);
    t.slope[0] = T(0);
  } else if (mode == kLinear) {
    t.n = 2;
    t.weight[0] = T(1) - r;
    t.weight[1] = r;
    t.slope[0] = T(-1);
    t.slope[1] = T(1);
  } else {
    t.n = 4;
    cubic(r, t.weight, t.slope);
    --first;
  }
  for (int i = 0; i < t.n; ++i) {
    t.slope[i] *= per_unit;
    int64_t at = first + i;
    T sign;
    if (padding == kBorder)
      at = std::clamp<int64_t>(at, 0, n - 1);
    else if (padding == kReflection)
      at = std::clamp<int64_t>(static_cast<int64_t>(reflect(static_cast<T>(at), low, high, sign)), 0, n - 1);
    t.index[i] = at >= 0 && at < n ? at : -1;
  }
  return t;
}

}  // namespace amp
