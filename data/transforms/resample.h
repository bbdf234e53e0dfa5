// Resizes images as Pillow's Image.resize, bit for bit: separable filters whose support grows with the reduction
// (antialiasing), in fixed point with 22 bits; nearest uses pixel centers.
#pragma once

#include <string>

#include "data/images/image.h"
#include "data/transforms/transform.h"

namespace amp {

enum class Interpolation : uint8_t { nearest, bilinear, bicubic, box, hamming, lanczos };
Interpolation interpolation_of(const Arguments& arguments);  // reads the value "interpolation"

Image resized(const Image& in, int64_t height, int64_t width, Interpolation interpolation);
Mask resized_nearest(const Mask& in, int64_t height, int64_t width);

// Resizes image and mask.
void resize(ImageSample& sample, int64_t height, int64_t width, Interpolation interpolation);

}  // namespace amp
