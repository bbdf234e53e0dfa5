// Crops and mirrors images and masks.
#pragma once

#include <algorithm>

#include "data/images/image.h"
#include "data/transforms/transform.h"

namespace amp {

// Returns the rectangle at (left, top); pixels outside of the image are `fill`. Combines torchvision's crop and pad.
template <class T>
Pixels<T> cropped(const Pixels<T>& in, int64_t top, int64_t left, int64_t height, int64_t width, T fill = 0) {
  Pixels<T> out(width, height, in.channels, fill);
  const int64_t from = std::max<int64_t>(0, left), to = std::min(in.width, left + width);
  for (int64_t y = std::max<int64_t>(0, top); y < std::min(in.height, top + height) && from < to; ++y)
    std::copy(in.row(y) + from * in.channels, in.row(y) + to * in.channels,
              out.row(y - top) + (from - left) * in.channels);
  return out;
}

template <class T>
Pixels<T> mirrored(const Pixels<T>& in) {  // exchanges left and right
  Pixels<T> out(in.width, in.height, in.channels);
  for (int64_t y = 0; y < in.height; ++y) {
    for (int64_t x = 0; x < in.width; ++x)
      std::copy_n(in.row(y) + x * in.channels, in.channels, out.row(y) + (in.width - 1 - x) * in.channels);
  }
  return out;
}

template <class T>
Pixels<T> upside_down(const Pixels<T>& in) {
  Pixels<T> out(in.width, in.height, in.channels);
  for (int64_t y = 0; y < in.height; ++y) std::copy_n(in.row(y), in.width * in.channels, out.row(in.height - 1 - y));
  return out;
}

// Crops image and mask; pixels outside of the mask have no class.
inline void crop(ImageSample& s, int64_t top, int64_t left, int64_t height, int64_t width, uint8_t fill = 0) {
  s.image = cropped(s.image, top, left, height, width, fill);
  if (s.mask) s.mask = cropped(*s.mask, top, left, height, width, kNoClass);
}

}  // namespace amp
