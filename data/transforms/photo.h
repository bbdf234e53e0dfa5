// Changes colors and shapes of images, equal bit for bit to Pillow's functions that torchvision calls.
#pragma once

#include <array>
#include <string>

#include "data/images/image.h"
#include "data/transforms/transform.h"

namespace amp {

// These functions compute the same as PIL.ImageEnhance. A factor of 1 leaves the image unchanged.
Image adjust_brightness(Image image, double factor);
Image adjust_contrast(Image image, double factor);
Image adjust_saturation(Image image, double factor);
Image adjust_sharpness(Image image, double factor);
Image adjust_hue(Image image, double shift);  // shift: -0.5 to 0.5 of the color circle; gray images do not change

// These functions compute the same as PIL.ImageOps.
Image posterized(Image image, int bits);
Image solarized(Image image, double threshold);
Image autocontrasted(Image image);
Image equalized(Image image);

// Maps a pixel of the result to the source: x' = m0 x + m1 y + m2, y' = m3 x + m4 y + m5.
using Affine = std::array<double, 6>;
Affine rotation_about_center(double degrees, int64_t width, int64_t height);  // the rotation is counter-clockwise
// Returns the map of a shear in degrees and a shift in pixels; (cx, cy) is the center of the shear.
Affine shear_and_shift(double shear_x, double shear_y, int64_t dx, int64_t dy, double cx, double cy);

// Apply a map or a rotation to image and mask, with the nearest pixel. Pixels from outside are black and have no class.
void warp(ImageSample& sample, const Affine& map);
void rotate(ImageSample& sample, double degrees);

}  // namespace amp
