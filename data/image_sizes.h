// Sizes among which images are spread by their aspect ratio, so that batches of one size lose little of them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/images/image.h"

namespace amp {

std::optional<ImageSize> parse_image_size(std::string_view text);  // "192x256": height x width, each 1 to 65536
std::string text_of(ImageSize size);

std::vector<ImageSize> largest_first(std::vector<ImageSize> sizes);  // by area; of one area, as they were given

// The place of the size whose aspect ratio is the nearest by its logarithm, so that twice and half as wide are as far;
// of several the first. Exact: products of sides are compared, not ratios.
size_t nearest_size(std::span<const ImageSize> sizes, ImageSize image);

}  // namespace amp
