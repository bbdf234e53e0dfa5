// Implements torchvision's RandomRotation around the center, with nearest-pixel interpolation.
#include "data/transforms/photo.h"

namespace amp {

namespace {

class Rotation final : public Transform {
 public:
  explicit Rotation(const Arguments& a) {
    const double first = a.numbers("degrees")[0];
    range_ = a.numbers("degrees").size() == 2 ? a.interval("degrees", -360, 360)
                                              : std::pair(-a.number("degrees", 0, 360), first);
  }
  void apply(ImageSample& s, Draws& draws) const override { rotate(s, draws.uniform(range_.first, range_.second)); }

 private:
  std::pair<double, double> range_;
};

const TransformRegistration rotation_row{{.name = "rotation",
                                          .parameters = {"degrees"},
                                          .what = "a turn by -d to d degrees, or by A to B",
                                          .random = true,
                                          .make = make_transform<Rotation>}};

}  // namespace

}  // namespace amp
