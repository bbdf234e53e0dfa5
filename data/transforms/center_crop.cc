// Implements torchvision's CenterCrop. Images that are smaller than the crop get black borders.
#include <cmath>

#include "data/transforms/geometry.h"

namespace amp {

namespace {

class CenterCrop final : public Transform {
 public:
  explicit CenterCrop(const Arguments& a) : size_(a.size("size")) {}

  void apply(ImageSample& s, Draws&) const override {
    crop(s, start(s.image.height, size_.height), start(s.image.width, size_.width), size_.height, size_.width);
  }

 private:
  // Returns the first row or column of the crop; a negative result means that the crop begins with a border. Halves are
  // rounded to the even number, as in Python. If a border is divided unequally, the smaller part comes first.
  static int64_t start(int64_t have, int64_t want) {
    if (want > have) return -((want - have) / 2);
    return static_cast<int64_t>(std::nearbyint(static_cast<double>(have - want) / 2));
  }
  Arguments::Size size_;
};

const TransformRegistration center_crop_row{{.name = "center_crop",
                                             .parameters = {"size"},
                                             .what = "the middle, of that size",
                                             .make = make_transform<CenterCrop>}};

}  // namespace

}  // namespace amp
