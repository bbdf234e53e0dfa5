// Implements torchvision's RandomCrop: a random part of the given size, after adding a border.
#include "base/error.h"
#include "data/transforms/geometry.h"

namespace amp {

namespace {

class RandomCrop final : public Transform {
 public:
  explicit RandomCrop(const Arguments& a)
      : size_(a.size("size")),
        padding_(static_cast<int64_t>(a.number("padding", 0, 4096))),
        fill_(static_cast<uint8_t>(a.number("fill", 0, 255))) {}

  void apply(ImageSample& s, Draws& draws) const override {
    const int64_t height = s.image.height + 2 * padding_, width = s.image.width + 2 * padding_;
    if (height < size_.height || width < size_.width)
      fail(Exit::data, "E_IMAGE_SMALL",
           cat("an image of ", s.image.width, " x ", s.image.height, " pixels is smaller than random_crop's ",
               size_.width, " x ", size_.height),
           "put a resize before it, or give it padding=N");
    const int64_t top = draws.below(height - size_.height + 1), left = draws.below(width - size_.width + 1);
    crop(s, top - padding_, left - padding_, size_.height, size_.width, fill_);
  }

 private:
  Arguments::Size size_;
  int64_t padding_;
  uint8_t fill_;
};

const TransformRegistration random_crop_row{{.name = "random_crop",
                                             .parameters = {"size", "padding=0", "fill=0"},
                                             .what = "a part of that size, after a border of padding=N was added",
                                             .random = true,
                                             .make = make_transform<RandomCrop>}};

}  // namespace

}  // namespace amp
