// Packs values of a sum over the ranks: as fp32, or as 16 bits of the value divided by the ranks (RankSum::sent).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

#include "base/dtype.h"

namespace amp {

// Conversions of values that are sent as T: float, Half or BFloat16.
template <class T>
struct CompressedValues {
  int ranks = 1;

  static constexpr bool exact = std::is_same_v<T, float>;

  // Calls f(begin, count) for consecutive pieces that fit into a buffer of fp32.
  static constexpr int64_t kPiece = 1024;
  using Piece = std::array<float, kPiece>;
  template <class F>
  static void in_pieces(int64_t n, F f) {
    for (int64_t i = 0; i < n; i += kPiece) f(i, std::min(kPiece, n - i));
  }

  void pack(const float* values, T* sent, int64_t n) const {
    if constexpr (exact) {
      std::copy_n(values, n, sent);
    } else {
      const float part = 1.0F / static_cast<float>(ranks);
      in_pieces(n, [&](int64_t begin, int64_t count) {
        Piece x;
        for (int64_t i = 0; i < count; ++i) x[static_cast<size_t>(i)] = values[begin + i] * part;
        from_float(x.data(), sent + begin, count);
      });
    }
  }
  // Converts received values to fp32. They are not yet multiplied by the number of ranks.
  static void load(const T* sent, float* parts, int64_t n) {
    if constexpr (exact)
      std::copy_n(sent, n, parts);
    else
      to_float(sent, parts, n);
  }
  // Converts the rounded sum that all ranks share.
  void unpack(const T* sum, float* values, int64_t n) const {
    load(sum, values, n);
    if constexpr (!exact) {
      for (int64_t i = 0; i < n; ++i) values[i] *= static_cast<float>(ranks);
    }
  }
  void finish(float* sum, int64_t n) const {  // rounds an fp32 sum as if it had been sent, and unpacks it
    if constexpr (!exact) {
      in_pieces(n, [&](int64_t begin, int64_t count) {
        std::array<T, kPiece> rounded;
        from_float(sum + begin, rounded.data(), count);
        unpack(rounded.data(), sum + begin, count);
      });
    }
  }
};

}  // namespace amp
