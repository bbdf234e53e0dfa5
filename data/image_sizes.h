// Image sizes as buckets by aspect ratio, so that images resized to the size of their batch lose little.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/images/image.h"

namespace amp {

std::optional<ImageSize> parse_image_size(std::string_view text);  // "192x256" is height x width, each 1 to 65536
std::string text_of(ImageSize size);

std::vector<ImageSize> largest_first(std::vector<ImageSize> sizes);  // by area; equal areas keep their order

// Returns the index of the size whose aspect ratio is nearest on a logarithmic scale: twice as wide is as far as half
// as wide. The first wins a tie. The result is exact, because products of sides are compared.
size_t nearest_size(std::span<const ImageSize> sizes, ImageSize image);

}  // namespace amp
