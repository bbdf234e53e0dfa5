// Weights for kernels that are vectorized over output channels, packed into rows of columns (output channels).
#pragma once

#include <vector>

#include "backend/cpu/stored.h"

namespace amp::conv_tiles {

// Weight (column, channel, tap) is element column * column_stride + channel * channel_stride + tap. fp32 weights are
// packed unchanged. bf16 weights are packed as pairs of channels (bf16_pairs.h); functions then count channels in
// pairs.
struct ChannelWeights {
  Stored data;
  int64_t taps = 1, column_stride = 0, channel_stride = 0;
  int64_t channels = 0;  // number of channels in memory (single ones, not pairs)

  bool pairs() const { return data.dtype == DType::bf16; }
  // Packs one row for each tap of of_taps and each of the channels [first, first + n). A row has `width` columns, a
  // multiple of 16; those from `columns` on are zero. at: index, in data, of the element of column 0 and channel 0.
  void pack(const std::vector<int64_t>& of_taps, int64_t at, int64_t columns, int64_t width, int64_t first, int64_t n,
            float* to) const;

 private:
  template <int Lanes>
  void columns_apart(int64_t at, int64_t columns, int64_t width, int64_t first, int64_t n, float* to) const;
  template <int Lanes>
  void pair_columns_apart(int64_t at, int64_t columns, int64_t width, int64_t first, int64_t n, float* to) const;
  template <int Lanes>
  void load_columns(int64_t at, int64_t count, int64_t channel, float* to) const;
  template <int Lanes>
  void channels_apart(const std::vector<int64_t>& of_taps, int64_t at, int64_t columns, int64_t width, int64_t first,
                      int64_t n, float* to) const;
  void one_by_one(const std::vector<int64_t>& of_taps, int64_t at, int64_t columns, int64_t width, int64_t first,
                  int64_t n, float* to) const;
};

}  // namespace amp::conv_tiles
