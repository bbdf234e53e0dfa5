#include "data/image_sizes.h"

#include <algorithm>

#include "base/error.h"
#include "base/number_text.h"
#include "base/text.h"

namespace amp {

namespace {
std::optional<int64_t> side_of(const std::string& text) {
  const auto side = all_digits(text) && text.size() < 6 ? parse_integer(text) : std::nullopt;
  return side && *side >= 1 && *side <= kLargestSide ? side : std::nullopt;
}

// The larger of two aspect ratios divided by the smaller, as the fraction n / d. It is at least 1.
struct Stretch {
  unsigned __int128 n, d;
};

Stretch between(ImageSize a, ImageSize b) {
  const auto x = static_cast<unsigned __int128>(a.width) * static_cast<unsigned __int128>(b.height),
             y = static_cast<unsigned __int128>(b.width) * static_cast<unsigned __int128>(a.height);
  return {std::max(x, y), std::min(x, y)};
}
}  // namespace

std::optional<ImageSize> parse_image_size(std::string_view text) {
  const std::vector<std::string> sides = split(lower_case(text), 'x');
  if (sides.size() != 2) return std::nullopt;
  const auto height = side_of(sides[0]), width = side_of(sides[1]);
  return height && width ? std::optional(ImageSize{*height, *width}) : std::nullopt;
}

std::string text_of(ImageSize size) { return cat(size.height, "x", size.width); }

std::vector<ImageSize> largest_first(std::vector<ImageSize> sizes) {
  std::stable_sort(sizes.begin(), sizes.end(),
                   [](ImageSize a, ImageSize b) { return a.height * a.width > b.height * b.width; });
  return sizes;
}

size_t nearest_size(std::span<const ImageSize> sizes, ImageSize image) {
  size_t best = 0;
  for (size_t i = 1; i < sizes.size(); ++i) {
    const Stretch a = between(sizes[i], image), b = between(sizes[best], image);
    if (a.n * b.d < b.n * a.d) best = i;
  }
  return best;
}

}  // namespace amp
