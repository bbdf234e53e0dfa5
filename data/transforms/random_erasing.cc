// Implements torchvision's RandomErasing: overwrites a random rectangle (Zhong et al., 2020).
#include <cmath>

#include "data/transforms/transform.h"

namespace amp {

namespace {

class RandomErasing final : public Transform {
 public:
  explicit RandomErasing(const Arguments& a)
      : p_(a.number("p", 0, 1)),
        scale_(a.interval("scale", 0, 1)),
        ratio_(a.interval("ratio", 1e-3, 1e3)),
        noise_(a.text("value") == "random"),
        value_(noise_ ? 0 : static_cast<float>(a.number("value", -1e6, 1e6))) {}

  void apply(ImageSample& s, Draws& draws) const override {
    if (!draws.chance(p_)) return;
    const int64_t height = s.image.height, width = s.image.width;
    for (int attempt = 0; attempt < 10; ++attempt) {
      const double area = static_cast<double>(height * width) * draws.uniform(scale_.first, scale_.second);
      const double ratio = std::exp(draws.uniform(std::log(ratio_.first), std::log(ratio_.second)));
      const auto h = static_cast<int64_t>(std::nearbyint(std::sqrt(area * ratio)));
      const auto w = static_cast<int64_t>(std::nearbyint(std::sqrt(area / ratio)));
      if (h >= height || w >= width) continue;
      const int64_t top = draws.below(height - h + 1), left = draws.below(width - w + 1);
      for (int64_t c = 0; c < s.channels(); ++c) {
        for (int64_t y = top; y < top + h; ++y) {
          float* const row = s.numbers.data() + (c * height + y) * width;
          for (int64_t x = left; x < left + w; ++x) row[x] = noise_ ? static_cast<float>(draws.normal()) : value_;
        }
      }
      return;
    }
  }

 private:
  double p_;
  std::pair<double, double> scale_, ratio_;
  bool noise_;
  float value_;
};

const TransformRegistration random_erasing_row{
    {.name = "random_erasing",
     .stage = Stage::numbers,
     .parameters = {"p=0.5", "scale=0.02,0.33", "ratio=0.3,3.3", "value=0"},
     .what = "a rectangle of random area and ratio becomes a number, or noise (value=random), with probability p",
     .random = true,
     .make = make_transform<RandomErasing>}};

}  // namespace

}  // namespace amp
