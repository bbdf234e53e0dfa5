// Implements torchvision's RandomResizedCrop: a part of random area and ratio, resized to the given size (Szegedy et
// al., 2015).
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/number_text.h"
#include "data/transforms/geometry.h"
#include "data/transforms/resample.h"

namespace amp {

namespace {

class RandomResizedCrop final : public Transform {
 public:
  explicit RandomResizedCrop(const Arguments& a)
      : size_(a.size("size")),
        scale_(a.interval("scale", 1e-6, 1)),
        ratio_(a.interval("ratio", 1e-3, 1e3)),
        interpolation_(interpolation_of(a)) {}

  void apply(ImageSample& s, Draws& draws) const override {
    const auto height = static_cast<double>(s.image.height), width = static_cast<double>(s.image.width);
    for (int attempt = 0; attempt < 10; ++attempt) {
      const double area = height * width * draws.uniform(scale_.first, scale_.second);
      const double ratio = std::exp(draws.uniform(std::log(ratio_.first), std::log(ratio_.second)));
      const auto w = static_cast<int64_t>(std::nearbyint(std::sqrt(area * ratio)));
      const auto h = static_cast<int64_t>(std::nearbyint(std::sqrt(area / ratio)));
      if (w < 1 || w > s.image.width || h < 1 || h > s.image.height) continue;
      const int64_t top = draws.below(s.image.height - h + 1), left = draws.below(s.image.width - w + 1);
      return take(s, top, left, h, w);
    }
    int64_t w = s.image.width, h = s.image.height;  // fallback: the largest center crop that the ratios allow
    if (width / height < ratio_.first) {
      h = static_cast<int64_t>(std::nearbyint(width / ratio_.first));
    } else if (width / height > ratio_.second) {
      w = static_cast<int64_t>(std::nearbyint(height * ratio_.second));
    }
    take(s, (s.image.height - h) / 2, (s.image.width - w) / 2, h, w);
  }

 private:
  void take(ImageSample& s, int64_t top, int64_t left, int64_t h, int64_t w) const {
    crop(s, top, left, h, w);
    resize(s, size_.height, size_.width, interpolation_);
  }
  Arguments::Size size_;
  std::pair<double, double> scale_, ratio_;
  Interpolation interpolation_;
};

// Returns new `size` and `ratio` values for a changed image size of the pipeline. The ratios change in proportion, so
// that crops are not distorted.
TransformValues crop_for(const Arguments& a, const SizeChange& change) {
  const Arguments::Size size = a.size("size");
  const int64_t height = change.height(size.height), width = change.width(size.width);
  const auto ratio = a.interval("ratio", 1e-3, 1e3);
  const double by = static_cast<double>(width * size.height) / static_cast<double>(height * size.width);
  const auto scaled = [&](double r) { return number_text(std::clamp(r * by, 1e-3, 1e3)); };
  return {{"size", cat(height, ",", width)}, {"ratio", cat(scaled(ratio.first), ",", scaled(ratio.second))}};
}

const TransformRegistration random_resized_crop_row{
    {.name = "random_resized_crop",
     .parameters = {"size", "scale=0.08,1", "ratio=0.75,1.3333333333333333", "interpolation=bilinear"},
     .what = "a part of random area and ratio, resized",
     .random = true,
     .make = make_transform<RandomResizedCrop>,
     .sized = crop_for}};

}  // namespace

}  // namespace amp
