// Image sizes that serve as buckets. Each image is resized to the size with the nearest aspect ratio, so that resizing
// distorts or crops it little.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/images/image.h"

namespace amp {

std::optional<ImageSize> parse_image_size(std::string_view text);  // reads HEIGHTxWIDTH, as "192x256"; 1 to 65536
std::string text_of(ImageSize size);

std::vector<ImageSize> largest_first(std::vector<ImageSize> sizes);  // sorts by area; equal areas keep their order

// Returns the index of the size whose aspect ratio is nearest to the image's on a logarithmic scale. There, twice the
// image's ratio is as far away as half of it. Of equally near sizes, the first is returned. The result is exact,
// because integer products of heights and widths are compared.
size_t nearest_size(std::span<const ImageSize> sizes, ImageSize image);

}  // namespace amp
