// Max pooling of 2x2 elements at stride 2 without padding (LeNet, VGG, U-Net). Gives the same bits as the general
// code in pool.cc, in one pass over each pair of rows.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "backend/cpu/lanes.h"
#include "backend/sliding_window.h"

namespace amp::pool_pairs {

inline bool fits(const SlidingWindow& w) {
  const auto pairs = [](const WindowAxis& a) {
    return a.kernel == 2 && a.stride == 2 && a.dilation == 1 && a.pad == 0 && 2 * a.out <= a.in;
  };
  return w[0].in == 1 && w[0].kernel == 1 && w[0].pad == 0 && w[0].out == 1 && pairs(w[1]) && pairs(w[2]);
}

constexpr int kLanes = 8;
constexpr int64_t kMost = 512;  // maximum number of input pairs that pool_rows() processes at a time
using Floats = cpu::VectorOf<kLanes>::type;
using Bits = cpu::IndexOf<kLanes>::type;

AMP_INLINE inline void load(const float* from, Floats& to) { std::memcpy(&to, from, sizeof to); }
AMP_INLINE inline void load(const int32_t* from, Bits& to) { std::memcpy(&to, from, sizeof to); }
// For each lane, to = yes if `where` is all ones, otherwise no.
template <class T>
AMP_INLINE inline void choose(const Bits& where, const Bits& yes, const Bits& no, T* to) {
  const Bits chosen = (where & yes) | (~where & no);
  std::memcpy(to, &chosen, sizeof chosen);
}

// best[i] = the larger of from[2 i] and from[2 i + 1]; second[i] is 1 if from[2 i + 1] was chosen, otherwise 0.
AMP_INLINE inline void best_of_pairs(const float* from, int64_t n, float* best, int32_t* second) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Floats a, b, even, odd;
    load(from + 2 * i, a);
    load(from + 2 * i + kLanes, b);
    cpu::unzip<kLanes>(a, b, even, odd, std::make_integer_sequence<int, kLanes>());
    const Bits take = (odd > even) | (odd != odd);
    choose(take, reinterpret_cast<Bits>(odd), reinterpret_cast<Bits>(even), best + i);
    choose(take, Bits{} + 1, Bits{}, second + i);
  }
  for (; i < n; ++i) {
    const float even = from[2 * i], odd = from[2 * i + 1];
    second[i] = (odd > even) | (odd != odd);
    best[i] = second[i] ? odd : even;
  }
}

// Processes rows of `width` outputs that use whole input rows, which therefore form one long row of pairs. Vectors may
// write past the end of a row, which the next row overwrites; a tail loop would add branches that are often
// mispredicted.
template <class Tap>
AMP_INLINE inline void pool_rows(const float* x, int64_t rows, int64_t width, float* y, Tap* taps) {
  alignas(64) float best[kMost + kLanes], out[kMost + kLanes];
  alignas(64) int32_t second[kMost + kLanes], tap[kMost + kLanes];
  const int64_t together = kMost / (2 * width);
  for (int64_t first = 0; first < rows; first += together) {
    const int64_t n = std::min(together, rows - first), at = first * width, pairs = n * 2 * width;
    best_of_pairs(x + 4 * at, pairs, best, second);
    std::fill_n(best + pairs, kLanes, 0.0F);
    std::fill_n(second + pairs, kLanes, 0);
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t j = 0; j < width; j += kLanes) {
        const int64_t top = 2 * r * width + j, to = r * width + j;
        Floats a, b;
        Bits p, q;
        load(best + top, a);
        load(best + top + width, b);
        load(second + top, p);
        load(second + top + width, q);
        const Bits take = (b > a) | (b != b);
        choose(take, reinterpret_cast<Bits>(b), reinterpret_cast<Bits>(a), out + to);
        choose(take, q + 2, p, tap + to);
      }
    }
    std::copy_n(out, n * width, y + at);
    for (int64_t j = 0; j < n * width; ++j) taps[at + j] = static_cast<Tap>(tap[j]);
  }
}

// Selects the largest of taps 0 and 1 (upper row) and 2 and 3 (lower row); the first of equal taps, but the last NaN if
// there are NaNs.
template <class T, class Tap>
AMP_INLINE inline void pool_plane(const SlidingWindow& w, const T* x, T* y, Tap* taps) {
  const int64_t in = w[2].in, n = w[2].out;
  if constexpr (std::is_same_v<T, float>) {
    if (in == 2 * n && in <= kMost) return pool_rows(x, w[1].out, n, y, taps);
  }
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

// True if a row of outputs consists of whole vectors. Otherwise mispredicted branches of tail loops cost too much.
inline bool grad_gains(const SlidingWindow& w) { return fits(w) && w[2].out % kLanes == 0; }

// Returns the gradient that a sum over overlapping windows would give: -0 becomes 0. T is uint16_t for the bits of
// bf16.
template <class T>
AMP_INLINE inline T summed(T g) {
  if constexpr (std::is_same_v<T, uint16_t>) {
    return g == 0x8000 ? uint16_t{0} : g;
  } else {
    return g + T(0);
  }
}

// Writes the gradient of a window's four inputs: g at `tap` (tap 0 for a number above 3), zeros at the other taps. Taps
// 0 and 1 are at `top`, taps 2 and 3 at `bottom`. A pair of taps is written as one integer, into which g is shifted;
// this avoids mispredicted branches.
template <class T>
AMP_INLINE inline void place(T g, uint32_t tap, T* top, T* bottom) {
  tap = tap <= 3 ? tap : 0;
  if constexpr (sizeof(T) == 8) {
    for (uint32_t i = 0; i < 2; ++i) top[i] = tap == i ? g : T(0), bottom[i] = tap == i + 2 ? g : T(0);
  } else {
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>;
    using Pair = std::conditional_t<sizeof(T) == 4, uint64_t, uint32_t>;
    const auto pair = static_cast<Pair>(Pair{std::bit_cast<Bits>(g)} << (tap % 2 * 8 * sizeof(T)));
    const Pair upper = pair & (Pair{tap / 2} - 1), lower = pair & (Pair{0} - Pair{tap / 2});
    std::memcpy(top, &upper, sizeof upper);
    std::memcpy(bottom, &lower, sizeof lower);
  }
}

// Writes each gradient at its tap, and zeros elsewhere.
template <class T, class Tap>
AMP_INLINE inline void grad_plane(const SlidingWindow& w, const T* dy, const Tap* taps, T* dx) {
  const int64_t in = w[2].in, n = w[2].out;
  for (int64_t r = 0; r < w[1].out; ++r, dx += 2 * in, dy += n, taps += n) {
    T *const top = dx, *const bottom = dx + in;
    for (int64_t j = 0; j < n; ++j) place(summed(dy[j]), static_cast<uint32_t>(taps[j]), top + 2 * j, bottom + 2 * j);
    std::fill(top + 2 * n, top + in, T(0));
    std::fill(bottom + 2 * n, bottom + in, T(0));
  }
  std::fill_n(dx, (w[1].in - 2 * w[1].out) * in, T(0));
}

}  // namespace amp::pool_pairs
