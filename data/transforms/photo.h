// What transforms do to colours and shapes, as Pillow computes it behind torchvision's functions, bit for bit.
#pragma once

#include <array>
#include <string>

#include "data/images/image.h"
#include "data/transforms/transform.h"

namespace amp {

// PIL.ImageEnhance: 1 leaves the image as it is.
Image adjust_brightness(Image image, double factor);
Image adjust_contrast(Image image, double factor);
Image adjust_saturation(Image image, double factor);
Image adjust_sharpness(Image image, double factor);
Image adjust_hue(Image image, double shift);  // -0.5 to 0.5 of the circle; grey images have none

// PIL.ImageOps.
Image posterized(Image image, int bits);
Image solarized(Image image, double threshold);
Image autocontrasted(Image image);
Image equalized(Image image);

// Where a pixel of the result lies in the source: x' = m0 x + m1 y + m2, y' = m3 x + m4 y + m5.
using Affine = std::array<double, 6>;
Affine rotation_about_center(double degrees, int64_t width, int64_t height);  // counter-clockwise
Affine shear_and_shift(double shear_x, double shear_y, int64_t dx, int64_t dy, double cx, double cy);  // in degrees

// Of image and mask, the nearest pixel; what lies outside is black, and of no class.
void warp(ImageSample& sample, const Affine& map);
void rotate(ImageSample& sample, double degrees);

}  // namespace amp
