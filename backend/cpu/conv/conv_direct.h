// fp32 convolution without im2col, for few channels. A convolution with stride 1 over a padded image is a sum of
// shifted copies of the flattened image. So a register tile of (output channels) x (adjacent pixels) is computed as in
// a matrix product whose right-hand rows are shifts of one buffer. Pixels between the rows of the output are computed
// and dropped.
//
// A stride is removed by splitting each axis of the image into its phases: phase s has the elements s, s + stride, ...
// A channel is stored as one plane for each combination of phases. The convolution reads phases; the gradient to x
// writes them.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cpu/conv/conv_shape.h"
#include "backend/cpu/workspace.h"

namespace amp {

// Layout of one group of channels of an image as zero-padded planes, with the taps as offsets into these planes.
struct ShiftPlan {
  struct Axis {
    int64_t source = 1, phases = 1, origin = 0, length = 1;  // element p of phase s is source[p * phases + s - origin]
  };
  // A part is a set of outputs with the same taps: the outputs start, start + step, ... (`count` of them) along each
  // axis. Tap i adds the product of weight[tap[i]] and plane[offset[i] + position] to the output at `position`.
  struct Part {
    std::array<int64_t, 3> start{}, count{}, step{};
    std::vector<int64_t> tap;
    std::vector<int32_t> offset;  // first element that each tap reads in channel 0's planes
  };
  std::array<Axis, 3> axis;
  std::vector<std::array<int64_t, 3>> planes;  // the phase of each plane of a channel, per axis
  std::vector<Part> parts;

  int64_t plane_size() const { return axis[0].length * axis[1].length * axis[2].length; }
  int64_t channel_size() const { return plane_size() * static_cast<int64_t>(planes.size()); }
  // Returns the number of positions of one depth index of a part's output, including the gaps between rows.
  int64_t flat(const Part& p) const { return (p.count[1] - 1) * axis[2].length + p.count[2]; }
};
ShiftPlan forward_plan(const SlidingWindow&);
ShiftPlan grad_x_plan(const SlidingWindow&);

// Returns true if offsets into the planes of a group's channels fit into int32_t.
bool conv_direct_fits(const ConvShape&);

Kernel conv_direct(const ConvShape&, Carver&, const float* x, const float* w, const float* bias, float* y);
Kernel conv_direct_grad_x(const ConvShape&, Carver&, const float* dy, const float* w, float* dx);
Kernel conv_direct_grad_w(const ConvShape&, Carver&, const float* x, const float* dy, float* dw);

}  // namespace amp
