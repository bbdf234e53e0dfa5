// Convolution vectorized over output channels. Images are packed channels last with padding, weights as rows of up to
// 64 output channels. A register tile is (a few pixels) x (64 channels), with one broadcast input per pixel and input
// channel. The pixels of a tile may be at any addresses and in several images. So no results are computed and
// discarded, for any stride and image size.
//
// Operands are fp32, or bf16 with AMX or avx512_bf16 (conv_channels_takes). bf16 elements form pairs of channels. In
// the gradient to the weight, which sums over pixels, they form pairs of images. One instruction sums both elements of
// a pair, for any kernel and stride.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cpu/conv/conv_shape.h"
#include "backend/cpu/stored.h"
#include "backend/cpu/workspace.h"

namespace amp {

// A convolution, or the gradient to its input, as sums over padded images that are stored channels last. The written
// pixels are divided into parts; all pixels of a part read the same taps. (The gradient to the input has one part for
// each phase of the strides, the convolution has one part.) Pixel p of a part is the sum over the part's taps t and the
// channels c of weight (t, c) * image[base(p) + offset[t] + c].
struct ChannelPlan {
  struct Axis {
    int64_t source = 1, origin = 0, length = 1, stride = 1;  // padded element p is source[p - origin]
  };
  struct Part {
    std::array<int64_t, 3> start{}, count{}, step{};  // first written pixel, number and distance of pixels, per axis
    // Index of each tap in the weight, and the distance from base(p) at which it reads, in floats.
    std::vector<int64_t> tap, offset;

    int64_t pixels() const { return count[0] * count[1] * count[2]; }
  };
  int64_t channels = 0, pitch = 0;  // channels: floats read per pixel; pitch: floats between adjacent pixels
  std::array<Axis, 3> axis;
  std::vector<Part> parts;

  int64_t image_size() const { return axis[0].length * axis[1].length * axis[2].length * pitch; }
  int64_t source_size() const { return axis[0].source * axis[1].source * axis[2].source; }
};
ChannelPlan forward_channels(const ConvShape&);
ChannelPlan grad_x_channels(const ConvShape&);

// Returns true for operands that are multiplied directly: both fp32, or both bf16 if the CPU supports bf16.
bool conv_channels_takes(DType, DType);

// Return kernels; y and dx are fp32 or bf16. conv_channels_grad_w() requires one group if its operands are bf16.
Kernel conv_channels(const ConvShape&, Carver&, const Stored& x, const Stored& w, const float* bias,
                     const StoredOut& y);
Kernel conv_channels_grad_x(const ConvShape&, Carver&, const Stored& dy, const Stored& w, const StoredOut& dx);
Kernel conv_channels_grad_w(const ConvShape&, Carver&, const Stored& x, const Stored& dy, float* dw);

// Returns true if there are enough input and output channels for these kernels to be faster.
bool conv_channels_gain(const ConvShape&);

}  // namespace amp
