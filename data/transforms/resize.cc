// torchvision's Resize: "224" makes the shorter side so long and keeps the ratio, "H,W" sets both.
#include <algorithm>

#include "data/transforms/resample.h"

namespace amp {

namespace {

class Resize final : public Transform {
 public:
  explicit Resize(const Arguments& a)
      : size_(a.size("size")), shorter_(a.numbers("size").size() == 1), interpolation_(interpolation_of(a)) {}

  void apply(ImageSample& s, Draws&) const override {
    int64_t height = size_.height, width = size_.width;
    if (shorter_) {
      const auto longer = [&](int64_t side, int64_t other) {  // truncated, as torchvision does
        return std::max<int64_t>(
            1, static_cast<int64_t>(static_cast<double>(size_.height * side) / static_cast<double>(other)));
      };
      if (s.image.width <= s.image.height) {
        height = longer(s.image.height, s.image.width);
      } else {
        width = longer(s.image.width, s.image.height);
      }
    }
    resize(s, height, width, interpolation_);
  }

 private:
  Arguments::Size size_;
  bool shorter_;
  Interpolation interpolation_;
};

const TransformRegistration registered{{.name = "resize",
                                        .parameters = {"size", "interpolation=bilinear"},
                                        .what = "the shorter side (224) or both (H,W), antialiased",
                                        .make = make_transform<Resize>}};

}  // namespace

}  // namespace amp
