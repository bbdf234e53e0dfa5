// A convolution, or the gradient to its input, as a sum over padded images (conv_channels.h): what the kernels that
// compute it are given.
#pragma once

#include <array>

#include "backend/cpu/conv_channels_pack.h"
#include "backend/cpu/conv_channels_weights.h"

namespace amp {

struct Correlation {
  ChannelPlan plan;
  int64_t images, groups, rows;  // rows: channels written, of a group
  conv_tiles::ChannelWeights w;
  std::array<int64_t, 3> out;  // spatial extents written
  conv_tiles::ImageSource source;
  const float* bias;  // or null
  StoredOut target;

  int64_t out_size() const { return out[0] * out[1] * out[2]; }
};

// In the tiles of AMX, images as planes of pairs of channels: neither they nor results are transposed. Of one group, at
// stride 1, of planes that fill tiles by themselves.
bool conv_planes_fits(const Correlation&);
Kernel conv_planes(Correlation, Carver&);

}  // namespace amp
