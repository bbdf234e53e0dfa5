// Vectorized sums over batch and space, and passes over all elements of (N, C, ...), channel by channel, for batch
// normalization. Channels with small planes are processed together: each element of their images is a column.
#pragma once

#include <algorithm>
#include <type_traits>

#include "backend/cpu/gemm/bf16_pairs.h"
#include "backend/cpu/vectors.h"
#include "backend/cpu/workspace.h"
#include "backend/parallel.h"

namespace amp::channel_blocks {

// x is (N, C, inner).
struct Layout {
  int64_t n, c, inner;
  explicit Layout(const Dims& d) : n(d.at(0)), c(d.at(1)), inner(1) {
    for (size_t i = 2; i < d.size(); ++i) inner *= d[i];
  }
  int64_t count() const { return n * inner; }
  // Statistics of an empty batch are 0.
  double divisor() const { return static_cast<double>(std::max<int64_t>(1, count())); }
};

constexpr int64_t kMostColumns = 256, kSmallestPlane = 128;

// Channels that a thread processes at a time: one channel with a large plane, or several adjacent channels. The
// elements of adjacent channels in an image are contiguous; they are called columns.
struct Channels {
  int64_t first, count;
};
inline bool in_columns(const Layout& l) { return l.inner < kSmallestPlane; }

// A Channels whose kind is a template parameter: columns of several channels, or (columns = false) a single channel.
template <bool columns>
struct Block {
  static constexpr int64_t kMost = columns ? kMostColumns : 1;
  int64_t channel, inner, neighbors;
  Block(const Layout& l, const Channels& c) : channel(c.first), inner(l.inner), neighbors(c.count) {}
  AMP_INLINE int64_t channels() const { return columns ? neighbors : 1; }
  AMP_INLINE int64_t width() const { return columns ? neighbors * inner : 1; }
  // Copies the value of each channel to all columns of the channel.
  template <class T>
  AMP_INLINE void spread(const T* from, T* to) const {
    if constexpr (columns) {
      for (int64_t c = 0; c < neighbors; ++c) std::fill_n(to + c * inner, inner, from[c]);
    } else {
      to[0] = from[0];
    }
  }
};

template <class Fn>
void each_channels(const Layout& l, Fn&& fn) {
  const int64_t block = in_columns(l) ? kMostColumns / std::max<int64_t>(1, l.inner) : 1;
  const int64_t blocks = (l.c + block - 1) / block;
  parallel_ranges(blocks, 16384 / (block * l.count() + 1) + 1, [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i) fn(Channels{i * block, std::min(l.c, (i + 1) * block) - i * block});
  });
}

template <class T>
struct Wide {  // elements per vector for which each SIMD level has enough registers
  using type = typename cpu::VectorOf<8>::local;
  static constexpr int64_t lanes = 8;
};
template <>
struct Wide<double> {
  using type = double;
  static constexpr int64_t lanes = 1;
};
// Loads an element or a vector. `to` is a reference, because wide vectors cannot be returned by value (lanes.h).
template <class V, class T>
AMP_INLINE inline void load(const T* from, V& to) {
  if constexpr (std::is_same_v<V, T>) {
    to = *from;
  } else {
    to = *reinterpret_cast<const typename cpu::VectorOf<8>::type*>(from);
  }
}
template <class V, class T>
AMP_INLINE inline void store(const V& v, T* to) {
  if constexpr (std::is_same_v<V, T>) {
    *to = v;
  } else {
    *reinterpret_cast<typename cpu::VectorOf<8>::type*>(to) = v;
  }
}
// Load bf16 elements as fp32, and store fp32 elements as bf16.
template <class V>
AMP_INLINE inline void load(const BFloat16* from, V& to) {
  if constexpr (std::is_same_v<V, float>) {
    to = static_cast<float>(*from);
  } else {
    bf16_pairs::load<8>(from, to);
  }
}
template <class V>
AMP_INLINE inline void store(const V& v, BFloat16* to) {
  if constexpr (std::is_same_v<V, float>) {
    *to = BFloat16(v);
  } else {
    bf16_pairs::store<8>(v, to);
  }
}
template <class T, class V>
AMP_INLINE inline double total(const V& v) {
  if constexpr (std::is_same_v<V, T>) {
    return static_cast<double>(v);
  } else {
    return static_cast<double>(((v[0] + v[4]) + (v[1] + v[5])) + ((v[2] + v[6]) + (v[3] + v[7])));
  }
}

// Loads values that belong to channels, for an element or a vector. `of` has one value per column of a block; if the
// block is a single channel, it has one value.
template <bool columns>
struct Channel {
  int64_t column;
  template <class V, class T>
  AMP_INLINE void operator()(const T* of, V& to) const {
    if constexpr (columns) {
      load(of + column, to);
    } else {
      to = V{} + of[0];
    }
  }
};

// Maximum number of terms of an fp32 sum. The sum of a column runs over the images. The sum of a single channel's
// elements in an image uses four accumulators, because each addition to an accumulator waits for the one before it.
constexpr int64_t kTogether = 256;

template <class T, int K, class F>
AMP_INLINE inline void plane_sums(const Layout& l, const Block<false>& block, double (*sum)[K], F&& f) {
  using V = typename Wide<T>::type;
  constexpr int64_t kLanes = Wide<T>::lanes, kChains = 4;
  constexpr Channel<false> kChannel{0};
  std::fill_n(sum[0], K, 0.0);
  for (int64_t i = 0; i < l.n; ++i) {
    const int64_t at = (i * l.c + block.channel) * l.inner;
    for (int64_t b = 0; b < l.inner; b += kTogether) {
      const int64_t e = std::min(l.inner, b + kTogether);
      V part[kChains][K], term[K];
      for (int64_t q = 0; q < kChains; ++q) {
        for (int k = 0; k < K; ++k) part[q][k] = V{};
      }
      int64_t j = b;
      for (; j + kChains * kLanes <= e; j += kChains * kLanes) {
        for (int64_t q = 0; q < kChains; ++q) {
          f(kChannel, at + j + q * kLanes, term);
          for (int k = 0; k < K; ++k) part[q][k] += term[k];
        }
      }
      for (; j + kLanes <= e; j += kLanes) {
        f(kChannel, at + j, term);
        for (int k = 0; k < K; ++k) part[0][k] += term[k];
      }
      T rest[K] = {}, one[K];
      for (; j < e; ++j) {
        f(kChannel, at + j, one);
        for (int k = 0; k < K; ++k) rest[k] += one[k];
      }
      for (int k = 0; k < K; ++k)
        sum[0][k] += total<T>((part[0][k] + part[1][k]) + (part[2][k] + part[3][k])) + static_cast<double>(rest[k]);
    }
  }
}
template <class V, class T, int K, class F>
AMP_INLINE inline void one_column(const Layout& l, const Block<true>& block, int64_t j, int64_t first,
                                  T (*sum)[kMostColumns], F&& f) {
  V part[K], term[K];
  for (int k = 0; k < K; ++k) part[k] = V{};
  for (int64_t i = first; i < std::min(l.n, first + kTogether); ++i) {
    f(Channel<true>{j}, (i * l.c + block.channel) * l.inner + j, term);
    for (int k = 0; k < K; ++k) part[k] += term[k];
  }
  for (int k = 0; k < K; ++k) store(part[k], sum[k] + j);
}
template <class T, int K, class F>
AMP_INLINE inline void column_sums(const Layout& l, const Block<true>& block, double (*sum)[K], F&& f) {
  constexpr int64_t kLanes = Wide<T>::lanes;
  const int64_t width = block.width();
  for (int64_t c = 0; c < block.channels(); ++c) std::fill_n(sum[c], K, 0.0);
  T part[K][kMostColumns];
  for (int64_t first = 0; first < l.n; first += kTogether) {
    int64_t j = 0;
    for (; j + kLanes <= width; j += kLanes) one_column<typename Wide<T>::type, T, K>(l, block, j, first, part, f);
    for (; j < width; ++j) one_column<T, T, K>(l, block, j, first, part, f);
    for (int64_t c = 0; c < block.channels(); ++c) {
      for (int k = 0; k < K; ++k) {
        for (j = 0; j < l.inner; ++j) sum[c][k] += static_cast<double>(part[k][c * l.inner + j]);
      }
    }
  }
}
// sum[c][k] = the sum over batch and space of values[k], for each channel c of a block. f(channel values, position,
// values) computes `values` for an element or a vector.
template <class T, int K, bool columns, class F>
AMP_INLINE inline void channel_sums(const Layout& l, const Block<columns>& block, double (*sum)[K], F&& f) {
  if constexpr (columns) {
    column_sums<T, K>(l, block, sum, f);
  } else {
    plane_sums<T, K>(l, block, sum, f);
  }
}

// Calls f(channel values, position, v) for every element or vector of a block; v is a zero element or vector.
template <class T, bool columns, class F>
AMP_INLINE inline void each_element(const Layout& l, const Block<columns>& block, F&& f) {
  constexpr int64_t kLanes = Wide<T>::lanes;
  const int64_t n = columns ? block.width() : l.inner;
  for (int64_t i = 0; i < l.n; ++i) {
    const int64_t at = (i * l.c + block.channel) * l.inner;
    int64_t j = 0;
    for (; j + kLanes <= n; j += kLanes) {
      typename Wide<T>::type v{};
      f(Channel<columns>{j}, at + j, v);
    }
    for (; j < n; ++j) {
      T one{};
      f(Channel<columns>{j}, at + j, one);
    }
  }
}

}  // namespace amp::channel_blocks
