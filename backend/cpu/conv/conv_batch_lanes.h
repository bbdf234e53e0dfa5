// The layout of operands of convolutions that are vectorized over images (conv_batch.h, conv_batch_grad_w.cc).
#pragma once

#include <algorithm>

#include "backend/cpu/conv/conv_shape.h"
#include "backend/cpu/vectors.h"

namespace amp::conv_batch_lanes {

constexpr int64_t kImages = 16;  // lanes of the widest vector; Lanes::lanes is a multiple of it

inline int64_t lanes_of(const ConvShape& s) { return (s.n + kImages - 1) / kImages * kImages; }

// Packs an operand (image, group, channel, pixel) as (group, pixel, channel, lane). A lane is an image; lanes after the
// last image are zero.
struct Lanes {
  int64_t images, groups, channels, pixels, lanes;

  int64_t size() const { return groups * channels * pixels * lanes; }
  int64_t of_group() const { return channels * pixels * lanes; }
  int64_t pixel_step() const { return channels * lanes; }
  void pack(const float* from, float* to) const;
};

// Calls f(first, count) for ranges of 16 indices that cover [0, n). The last range may overlap the range before it. If
// n is below 16, the only range has n indices.
template <class F>
AMP_INLINE inline void by_sixteen(int64_t n, const F& f) {
  if (n < 16) return f(int64_t{0}, n);
  for (int64_t i = 0; i < n; i += 16) f(std::min(i, n - 16), int64_t{16});
}

}  // namespace amp::conv_batch_lanes
