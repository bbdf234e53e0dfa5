// Implements torchvision's RandAugment (Cubuk et al., 2020) and TrivialAugmentWide (Müller and Hutter, 2021).
// Magnitudes and geometry follow torchvision's code; the random numbers are Philox's, as everywhere in this program.
#include "data/transforms/auto_augment.h"

#include <array>
#include <cmath>

#include "base/error.h"
#include "data/transforms/photo.h"

namespace amp {

void augment(ImageSample& s, const std::string& operation, double m) {
  const double degrees = std::atan(m) * 180 / M_PI;
  const double cx = static_cast<double>(s.image.width) * 0.5, cy = static_cast<double>(s.image.height) * 0.5;
  const auto change = [&](Image (*f)(Image, double), double by) { s.image = f(std::move(s.image), by); };
  if (operation == "ShearX") return warp(s, shear_and_shift(degrees, 0, 0, 0, 0, 0));
  if (operation == "ShearY") return warp(s, shear_and_shift(0, degrees, 0, 0, 0, 0));
  if (operation == "TranslateX") return warp(s, shear_and_shift(0, 0, static_cast<int64_t>(m), 0, cx, cy));
  if (operation == "TranslateY") return warp(s, shear_and_shift(0, 0, 0, static_cast<int64_t>(m), cx, cy));
  if (operation == "Rotate") return rotate(s, m);
  if (operation == "Brightness") return change(adjust_brightness, 1 + m);
  if (operation == "Color") return change(adjust_saturation, 1 + m);
  if (operation == "Contrast") return change(adjust_contrast, 1 + m);
  if (operation == "Sharpness") return change(adjust_sharpness, 1 + m);
  if (operation == "Solarize") return change(solarized, m);
  if (operation == "Posterize") {
    s.image = posterized(std::move(s.image), static_cast<int>(m));
  } else if (operation == "AutoContrast") {
    s.image = autocontrasted(std::move(s.image));
  } else if (operation == "Equalize") {
    s.image = equalized(std::move(s.image));
  } else if (operation != "Identity") {
    bug(cat("no operation is called ", operation));
  }
}

namespace {

constexpr std::array<const char*, 14> kOperations{"Identity",  "ShearX",     "ShearY",       "TranslateX", "TranslateY",
                                                  "Rotate",    "Brightness", "Color",        "Contrast",   "Sharpness",
                                                  "Posterize", "Solarize",   "AutoContrast", "Equalize"};

// For each group of operations: the largest change that they make to an image.
struct Reach {
  double shear, rotation, color, bits;
  double across, down;  // pixels of TranslateX and TranslateY
};

// Returns an operation's magnitude at step `bin` of a scale with `bins` steps, with a random sign if the operation has
// two directions.
double magnitude(const std::string& operation, const Reach& r, int64_t bin, int64_t bins, Draws& draws) {
  const double part = static_cast<double>(bin) / static_cast<double>(bins - 1);
  if (operation == "Posterize") return 8 - std::nearbyint(part * r.bits);
  if (operation == "Solarize") return 255 * (1 - part);
  if (operation == "Identity" || operation == "AutoContrast" || operation == "Equalize") return 0;
  const double largest = operation.starts_with("Shear") ? r.shear
                         : operation == "TranslateX"    ? r.across
                         : operation == "TranslateY"    ? r.down
                         : operation == "Rotate"        ? r.rotation
                                                        : r.color;
  return draws.below(2) ? -part * largest : part * largest;
}

class RandAugment final : public Transform {
 public:
  explicit RandAugment(const Arguments& a)
      : operations_(static_cast<int>(a.number("operations", 0, 14))),
        bins_(static_cast<int64_t>(a.number("bins", 2, 1000))),
        magnitude_(static_cast<int64_t>(a.number("magnitude", 0, static_cast<double>(bins_ - 1)))) {}

  void apply(ImageSample& s, Draws& draws) const override {
    for (int i = 0; i < operations_; ++i) {
      const std::string operation = kOperations[static_cast<size_t>(draws.below(kOperations.size()))];
      const Reach reach{0.3,
                        30,
                        0.9,
                        4,
                        150.0 / 331 * static_cast<double>(s.image.width),
                        150.0 / 331 * static_cast<double>(s.image.height)};
      augment(s, operation, magnitude(operation, reach, magnitude_, bins_, draws));
    }
  }

 private:
  int operations_;
  int64_t bins_, magnitude_;
};

class TrivialAugment final : public Transform {
 public:
  explicit TrivialAugment(const Arguments& a) : bins_(static_cast<int64_t>(a.number("bins", 2, 1000))) {}

  void apply(ImageSample& s, Draws& draws) const override {
    const std::string operation = kOperations[static_cast<size_t>(draws.below(kOperations.size()))];
    const int64_t bin = draws.below(bins_);
    augment(s, operation, magnitude(operation, {0.99, 135, 0.99, 6, 32, 32}, bin, bins_, draws));
  }

 private:
  int64_t bins_;
};

const TransformRegistration rand_augment{{.name = "rand_augment",
                                          .parameters = {"operations=2", "magnitude=9", "bins=31"},
                                          .what = "some operations on colors and shape, all of one magnitude",
                                          .random = true,
                                          .make = make_transform<RandAugment>}};
const TransformRegistration trivial_augment{{.name = "trivial_augment",
                                             .parameters = {"bins=31"},
                                             .what = "one operation on colors or shape, of a random magnitude",
                                             .random = true,
                                             .make = make_transform<TrivialAugment>}};

}  // namespace

}  // namespace amp
