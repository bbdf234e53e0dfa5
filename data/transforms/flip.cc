// Implements torchvision's RandomHorizontalFlip and RandomVerticalFlip.
#include "data/transforms/geometry.h"

namespace amp {

namespace {

class HorizontalFlip final : public Transform {
 public:
  explicit HorizontalFlip(const Arguments& a) : p_(a.number("p", 0, 1)) {}
  void apply(ImageSample& s, Draws& draws) const override {
    if (!draws.chance(p_)) return;
    s.image = mirrored(s.image);
    if (s.mask) s.mask = mirrored(*s.mask);
  }

 private:
  double p_;
};

class VerticalFlip final : public Transform {
 public:
  explicit VerticalFlip(const Arguments& a) : p_(a.number("p", 0, 1)) {}
  void apply(ImageSample& s, Draws& draws) const override {
    if (!draws.chance(p_)) return;
    s.image = upside_down(s.image);
    if (s.mask) s.mask = upside_down(*s.mask);
  }

 private:
  double p_;
};

const TransformRegistration horizontal{{.name = "horizontal_flip",
                                        .parameters = {"p=0.5"},
                                        .what = "left and right exchanged, with probability p",
                                        .random = true,
                                        .make = make_transform<HorizontalFlip>}};
const TransformRegistration vertical{{.name = "vertical_flip",
                                      .parameters = {"p=0.5"},
                                      .what = "top and bottom exchanged, with probability p",
                                      .random = true,
                                      .make = make_transform<VerticalFlip>}};

}  // namespace

}  // namespace amp
