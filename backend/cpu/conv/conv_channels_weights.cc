// Packs convolution weights into rows of output channels (conv_channels_weights.h). Specialized for the two layouts
// of forward and the gradient to x, which are transposed in blocks of 16; other cases copy element by element.

#include "backend/cpu/conv/conv_channels_weights.h"

#include <algorithm>
#include <array>

#include "backend/cpu/gemm/bf16_pairs.h"
#include "backend/cpu/gemm/block_transpose.h"

namespace amp::conv_tiles {

namespace {

constexpr int64_t kMostTaps = 144;  // maximum number of taps that are transposed at a time

const float* floats(const Stored& s, int64_t at) { return static_cast<const float*>(s.at(at)); }
const BFloat16* halves(const Stored& s, int64_t at) { return static_cast<const BFloat16*>(s.at(at)); }

// A vector of 4-byte elements whose bits are moved without conversion.
template <int Lanes>
struct Words {
  using V = typename cpu::VectorOf<Lanes>::type;
  using Word = typename bf16_pairs::IntegersOf<Lanes>::word;
};

}  // namespace

// Packs weights that are stored column by column: the channels and taps of a column are contiguous.
template <int Lanes>
AMP_INLINE inline void ChannelWeights::columns_apart(int64_t at, int64_t columns, int64_t width, int64_t first,
                                                     int64_t n, float* to) const {
  for (int64_t m = 0; m < width; m += 16) {
    const float* from = floats(data, at + m * column_stride + first * taps);
    for (int64_t j = 0; j < n * taps; j += 16) {
      cpu::transpose_block<Lanes>(from + j, column_stride, columns - m, std::min<int64_t>(16, n * taps - j),
                                  [&](int64_t i)
                                      AMP_INLINE { return to + ((j + i) % taps * n + (j + i) / taps) * width + m; });
    }
  }
}

// Packs the layout of columns_apart() for bf16 with an even number of channels. Adjacent elements are transposed in
// pairs, then channels 2 i and 2 i + 1 are combined.
template <int Lanes>
AMP_INLINE inline void ChannelWeights::pair_columns_apart(int64_t at, int64_t columns, int64_t width, int64_t first,
                                                          int64_t n, float* to) const {
  using V = typename Words<Lanes>::V;
  using Word = typename Words<Lanes>::Word;
  alignas(64) float twos[kMostTaps + 16][16];  // indexed by [pair of elements 2 * i and 2 * i + 1][column]
  const int64_t most = kMostTaps / taps;
  for (int64_t m = 0; m < width; m += 16) {
    for (int64_t c = 0; c < n; c += most) {
      const int64_t size = std::min(most, n - c) * taps;
      const auto* from = reinterpret_cast<const float*>(halves(data, at + m * column_stride + (first + c) * 2 * taps));
      for (int64_t j = 0; j < size; j += 16) {
        cpu::transpose_block<Lanes>(from + j, column_stride / 2, columns - m, std::min<int64_t>(16, size - j),
                                    [&](int64_t i) AMP_INLINE { return twos[j + i]; });
      }
      for (int64_t i = 0; i < size; ++i) {
        const int64_t pair = i / taps, tap = i % taps, low = 2 * pair * taps + tap, high = low + taps;
        float* row = to + (tap * n + c + pair) * width + m;
        for (int64_t l = 0; l < 16; l += Lanes) {
          const Word a = (Word)(*reinterpret_cast<const V*>(twos[low / 2] + l)),
                     b = (Word)(*reinterpret_cast<const V*>(twos[high / 2] + l));
          const Word both = (low % 2 ? a >> 16 : a & 0xffffu) | (high % 2 ? b & 0xffff0000u : b << 16);
          *reinterpret_cast<V*>(row + l) = (V)both;
        }
      }
    }
  }
}

// Loads `count` columns of a channel with their taps. Prefetches the next channels, because they are too far apart for
// the hardware prefetcher.
template <int Lanes>
AMP_INLINE inline void ChannelWeights::load_columns(int64_t at, int64_t count, int64_t channel, float* to) const {
  constexpr int64_t kAhead = 4, kLine = 64;
  if (!pairs()) {
    const float* from = floats(data, at + channel * channel_stride);
    if (channel + kAhead < channels) {
      for (int64_t i = 0; i < count * taps; i += kLine / 4) __builtin_prefetch(from + kAhead * channel_stride + i);
    }
    for (int64_t i = 0; i < count * taps; ++i) to[i] = from[i];
    return;
  }
  const BFloat16* low = halves(data, at + 2 * channel * channel_stride);
  const BFloat16* high = 2 * channel + 1 < channels ? low + channel_stride : nullptr;
  if (2 * (channel + kAhead) + 1 < channels) {
    for (int64_t i = 0; i < count * taps; i += kLine / 2) {
      __builtin_prefetch(low + 2 * kAhead * channel_stride + i);
      __builtin_prefetch(high + 2 * kAhead * channel_stride + i);
    }
  }
  bf16_pairs::zip<Lanes>(low, high, count * taps, to);
}

// Packs the layout in which the columns and taps of a channel are contiguous.
template <int Lanes>
AMP_INLINE inline void ChannelWeights::channels_apart(const std::vector<int64_t>& of_taps, int64_t at, int64_t columns,
                                                      int64_t width, int64_t first, int64_t n, float* to) const {
  std::array<int64_t, kMostTaps> row_of;  // indexed by tap: the tap's row, or -1
  row_of.fill(-1);
  for (size_t t = 0; t < of_taps.size(); ++t) row_of[static_cast<size_t>(of_taps[t])] = static_cast<int64_t>(t);
  alignas(64) float block[16 * kMostTaps + 32];
  float trash[16];
  for (int64_t c = 0; c < n; ++c) {
    for (int64_t m = 0; m < width; m += 16) {
      const int64_t count = std::clamp<int64_t>(columns - m, 0, 16);
      float* const row = to + c * width + m;
      load_columns<Lanes>(at + m * taps, count, first + c, taps == 1 ? row : block);
      if (taps == 1) {
        std::fill(row + count, row + 16, 0.0f);
        // For few taps (the branch below), copies are faster than transposing 16 taps.
      } else if (of_taps.size() < 8 && count == 16) {
        for (size_t t = 0; t < of_taps.size(); ++t) {
          for (int64_t i = 0; i < 16; ++i) row[static_cast<int64_t>(t) * n * width + i] = block[i * taps + of_taps[t]];
        }
      } else {
        for (int64_t t = 0; t < taps; t += 16) {
          cpu::transpose_block<Lanes>(block + t, taps, count, 16, [&](int64_t i) AMP_INLINE {
            const int64_t at_row = t + i < taps ? row_of[static_cast<size_t>(t + i)] : -1;
            return at_row < 0 ? trash : row + at_row * n * width;
          });
        }
      }
    }
  }
}

void ChannelWeights::one_by_one(const std::vector<int64_t>& of_taps, int64_t at, int64_t columns, int64_t width,
                                int64_t first, int64_t n, float* to) const {
  for (size_t t = 0; t < of_taps.size(); ++t) {
    for (int64_t c = 0; c < n; ++c) {
      float* row = to + (static_cast<int64_t>(t) * n + c) * width;
      for (int64_t m = 0; m < columns; ++m) {
        const int64_t column = at + m * column_stride + of_taps[t];
        if (!pairs()) {
          row[m] = *floats(data, column + (first + c) * channel_stride);
          continue;
        }
        const int64_t low = 2 * (first + c), from = column + low * channel_stride;
        bf16_pairs::zip<4>(halves(data, from), low + 1 < channels ? halves(data, from + channel_stride) : nullptr, 1,
                           row + m);
      }
      std::fill(row + columns, row + width, 0.0f);
    }
  }
}

void ChannelWeights::pack(const std::vector<int64_t>& of_taps, int64_t at, int64_t columns, int64_t width,
                          int64_t first, int64_t n, float* to) const {
  if (of_taps.empty()) return;
  const bool all = static_cast<int64_t>(of_taps.size()) == taps, whole = channels % 2 == 0;
  const bool neighbors = all && channel_stride == taps && column_stride == channels * taps;
  if (neighbors && !pairs()) {
    cpu::at_level([&]<int Lanes>() AMP_INLINE { columns_apart<Lanes>(at, columns, width, first, n, to); });
  } else if (neighbors && whole && taps <= kMostTaps) {
    cpu::at_level([&]<int Lanes>() AMP_INLINE { pair_columns_apart<Lanes>(at, columns, width, first, n, to); });
  } else if (column_stride == taps && taps <= kMostTaps) {
    cpu::at_level([&]<int Lanes>() AMP_INLINE { channels_apart<Lanes>(of_taps, at, columns, width, first, n, to); });
  } else {
    one_by_one(of_taps, at, columns, width, first, n, to);
  }
}

}  // namespace amp::conv_tiles
