// Implements torchvision's ColorJitter: random changes of brightness, contrast, saturation and hue in a random order.
#include "base/error.h"
#include "data/transforms/photo.h"

namespace amp {

namespace {

class ColorJitter final : public Transform {
 public:
  explicit ColorJitter(const Arguments& a)
      : ranges_{around_one(a, "brightness"), around_one(a, "contrast"), around_one(a, "saturation"), hues(a)} {}

  void apply(ImageSample& s, Draws& draws) const override {
    std::array<int, 4> order{0, 1, 2, 3};
    for (size_t i = 3; i > 0; --i)
      std::swap(order[i], order[static_cast<size_t>(draws.below(static_cast<int64_t>(i) + 1))]);
    std::array<double, 4> factors{};
    for (size_t i = 0; i < 4; ++i) factors[i] = draws.uniform(ranges_[i].first, ranges_[i].second);
    for (const int what : order) {
      const auto [low, high] = ranges_[static_cast<size_t>(what)];
      const double factor = factors[static_cast<size_t>(what)], idle = what == 3 ? 0 : 1;
      if (low == idle && high == idle) continue;
      s.image = what == 0   ? adjust_brightness(std::move(s.image), factor)
                : what == 1 ? adjust_contrast(std::move(s.image), factor)
                : what == 2 ? adjust_saturation(std::move(s.image), factor)
                            : adjust_hue(std::move(s.image), factor);
    }
  }

 private:
  using Range = std::pair<double, double>;
  static Range around_one(const Arguments& a, const std::string& name) {
    if (a.numbers(name).size() == 2) return a.interval(name, 0, 100);
    const double v = a.number(name, 0, 100);
    return {std::max(0.0, 1 - v), 1 + v};
  }
  static Range hues(const Arguments& a) {
    if (a.numbers("hue").size() == 2) return a.interval("hue", -0.5, 0.5);
    const double v = a.number("hue", 0, 0.5);
    return {-v, v};
  }
  std::array<Range, 4> ranges_;
};

const TransformRegistration color_jitter_row{
    {.name = "color_jitter",
     .parameters = {"brightness=0", "contrast=0", "saturation=0", "hue=0"},
     .what = "colors changed at random: x is a factor from 1 - x to 1 + x (hue: -x to x), A,B one from A to B",
     .random = true,
     .make = make_transform<ColorJitter>}};

}  // namespace

}  // namespace amp
