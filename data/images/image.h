// Pixels in memory. Each kind of image file is decoded by one source file in this folder, which registers itself; other
// code uses decoder.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace amp {

inline constexpr int64_t kLargestSide = 65536;  // largest height and width in settings, in pixels

struct ImageSize {
  int64_t height = 0, width = 0;
  bool operator==(const ImageSize&) const = default;
};

// The pixels of an image. Rows are stored from the top, pixels from the left, and channels interleaved.
template <class T>
struct Pixels {
  int64_t width = 0, height = 0, channels = 1;
  std::vector<T> data = {};

  Pixels() = default;
  Pixels(int64_t w, int64_t h, int64_t c, T fill = 0)
      : width(w), height(h), channels(c), data(static_cast<size_t>(w * h * c), fill) {}
  T* row(int64_t y) { return data.data() + y * width * channels; }
  const T* row(int64_t y) const { return data.data() + y * width * channels; }
  bool empty() const { return data.empty(); }
};

using Image = Pixels<uint8_t>;  // 1 channel: gray; 3: red, green, blue
using Mask = Pixels<int16_t>;   // the class of each pixel, or kNoClass

constexpr int16_t kNoClass = -100;  // equals kIgnoreIndex

Image to_rgb(Image image);   // copies gray to all channels
Image to_grey(Image image);  // computes ITU-R 601-2 luma in 16-bit fixed point, as Pillow's convert("L")

}  // namespace amp
