#include "data/images/exif.h"

#include <cstddef>

namespace amp {

namespace {

struct Tiff {
  std::string_view bytes;
  bool little = false;
  uint32_t number(size_t at, size_t width) const {  // returns 0 beyond the end of the data
    if (at > bytes.size() || bytes.size() - at < width) return 0;
    uint32_t v = 0;
    for (size_t i = 0; i < width; ++i)
      v = v << 8 | static_cast<unsigned char>(bytes[at + (little ? width - 1 - i : i)]);
    return v;
  }
};

}  // namespace

int exif_orientation(std::string_view block) {
  using namespace std::string_view_literals;
  if (block.starts_with("Exif\0\0"sv)) block.remove_prefix(6);
  const Tiff t{block, block.starts_with("II")};
  if (!(t.little || block.starts_with("MM")) || t.number(2, 2) != 42) return 1;
  const size_t directory = t.number(4, 4);
  const uint32_t entries = t.number(directory, 2);
  for (uint32_t e = 0; e < entries; ++e) {
    const size_t at = directory + 2 + size_t{12} * e;
    if (at >= block.size()) break;
    if (t.number(at, 2) != 0x0112 || t.number(at + 2, 2) != 3) continue;  // the tag of the orientation, of type SHORT
    const uint32_t value = t.number(at + 8, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

ImageSize upright(ImageSize size, int orientation) {
  return orientation >= 5 && orientation <= 8 ? ImageSize{size.width, size.height} : size;
}

// Returns the image in upright position. Orientations 5 to 8 swap rows and columns. The number describes the stored
// image: 2 mirrored, 3 turned by half, 4 flipped vertically, 5 transposed, 6 turned left by a quarter, 7 transversed, 8
// turned right by a quarter.
Image upright(Image image, int orientation) {
  if (orientation <= 1 || orientation > 8) return image;
  const bool turned = orientation >= 5;
  const bool flip_x = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool flip_y = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  Image out(turned ? image.height : image.width, turned ? image.width : image.height, image.channels);
  for (int64_t y = 0; y < out.height; ++y) {
    for (int64_t x = 0; x < out.width; ++x) {
      const int64_t a = turned ? y : x, b = turned ? x : y;
      const int64_t from_x = flip_x ? image.width - 1 - a : a, from_y = flip_y ? image.height - 1 - b : b;
      for (int64_t c = 0; c < out.channels; ++c)
        out.row(y)[x * out.channels + c] = image.row(from_y)[from_x * image.channels + c];
    }
  }
  return out;
}

}  // namespace amp
