// The sliding window of a convolution or a pool along each spatial axis. Spatial tensors are (N, C, [D,] H, W); a
// missing depth has extent 1.
//
// Attributes of the core operators, one number per spatial axis: strides, dilations, pads (all begins, then all
// ends), and kernel for pools.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/error.h"
#include "base/shape.h"
#include "graph/attrs.h"

namespace amp {

// Tap k of output o reads input o * stride + k * dilation - pad.
struct WindowAxis {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad = 0, pad_end = 0;

  int64_t at(int64_t o, int64_t k) const { return o * stride + k * dilation - pad; }
  int64_t reach() const { return (kernel - 1) * dilation + 1; }
  // begin() and end(): tap k is inside the input for the outputs [begin(k), end(k)).
  int64_t begin(int64_t k) const {
    const int64_t lack = pad - k * dilation;
    return lack <= 0 ? 0 : std::min(out, (lack + stride - 1) / stride);
  }
  int64_t end(int64_t k) const {
    const int64_t last = in - 1 + pad - k * dilation;
    return last < 0 ? begin(k) : std::max(begin(k), std::min(out, last / stride + 1));
  }
};
using SlidingWindow = std::array<WindowAxis, 3>;  // depth, height, width

inline int64_t volume(const SlidingWindow& w, int64_t WindowAxis::*extent) {
  return w[0].*extent * w[1].*extent * w[2].*extent;
}

// Reads the window from a node's attributes. x and y are complete dims. kernel has one number per spatial axis; for a
// convolution, the last dims of the weight.
inline SlidingWindow make_window(const Dims& x, const Dims& y, const Dims& kernel, const Attrs& a) {
  const size_t r = kernel.size();
  check(r >= 1 && r <= 3 && x.size() == r + 2 && y.size() == r + 2, "window of a tensor that is not spatial");
  const auto strides = a.ints("strides"), dilations = a.ints("dilations"), pads = a.ints("pads");
  SlidingWindow w;
  for (size_t i = 0; i < r; ++i) {
    w[3 - r + i] =
        WindowAxis{x[i + 2], y[i + 2], kernel[i], strides.at(i), dilations.at(i), pads.at(i), pads.at(r + i)};
  }
  return w;
}

}  // namespace amp
