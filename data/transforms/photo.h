// Changes of color and shape, equal bit for bit to Pillow's functions that torchvision calls.
#pragma once

#include <array>
#include <string>

#include "data/images/image.h"
#include "data/transforms/transform.h"

namespace amp {

// PIL.ImageEnhance; factor 1 leaves the image unchanged.
Image adjust_brightness(Image image, double factor);
Image adjust_contrast(Image image, double factor);
Image adjust_saturation(Image image, double factor);
Image adjust_sharpness(Image image, double factor);
Image adjust_hue(Image image, double shift);  // -0.5 to 0.5 of the circle; gray images stay

// PIL.ImageOps.
Image posterized(Image image, int bits);
Image solarized(Image image, double threshold);
Image autocontrasted(Image image);
Image equalized(Image image);

// Maps a pixel of the result to the source: x' = m0 x + m1 y + m2, y' = m3 x + m4 y + m5.
using Affine = std::array<double, 6>;
Affine rotation_about_center(double degrees, int64_t width, int64_t height);  // counter-clockwise
Affine shear_and_shift(double shear_x, double shear_y, int64_t dx, int64_t dy, double cx, double cy);  // in degrees

// Transforms image and mask by the nearest pixel. Pixels outside are black and have no class.
void warp(ImageSample& sample, const Affine& map);
void rotate(ImageSample& sample, double degrees);

}  // namespace amp
