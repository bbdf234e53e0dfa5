// Another size, as Pillow's Image.resize computes it, bit for bit: separable filters whose support grows with the
// reduction (antialiasing), in fixed point with 22 bits; nearest by the pixels' centres.
#pragma once

#include <string>

#include "data/images/image.h"
#include "data/transforms/transform.h"

namespace amp {

enum class Interpolation : uint8_t { nearest, bilinear, bicubic, box, hamming, lanczos };
Interpolation interpolation_of(const Arguments& arguments);  // its "interpolation"

Image resized(const Image& in, int64_t height, int64_t width, Interpolation interpolation);
Mask resized_nearest(const Mask& in, int64_t height, int64_t width);

// Of image and mask.
void resize(ImageSample& sample, int64_t height, int64_t width, Interpolation interpolation);

}  // namespace amp
