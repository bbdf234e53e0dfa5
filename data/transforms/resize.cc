// Implements torchvision's Resize: "224" sets the shorter side and keeps the ratio; "H,W" sets both sides. In addition,
// "H,W fit=cover" keeps the ratio and makes the smallest image that covers H x W.
#include <algorithm>

#include "base/error.h"
#include "data/transforms/resample.h"

namespace amp {

namespace {

class Resize final : public Transform {
 public:
  explicit Resize(const Arguments& a)
      : size_(a.size("size")), shorter_(by_shorter_side(a)), cover_(covers(a)), interpolation_(interpolation_of(a)) {}

  static bool by_shorter_side(const Arguments& a) { return a.numbers("size").size() == 1; }
  static bool covers(const Arguments& a) {
    const std::string& fit = a.text("fit");
    if (fit != "fill" && fit != "cover") a.refuse("fit", "fill or cover");
    return fit == "cover";
  }

  void apply(ImageSample& s, Draws&) const override {
    int64_t height = size_.height, width = size_.width;
    if (shorter_ || cover_) {
      const auto longer = [](int64_t given, int64_t side, int64_t other) {  // truncated, as torchvision does
        return std::max<int64_t>(1,
                                 static_cast<int64_t>(static_cast<double>(given * side) / static_cast<double>(other)));
      };
      if (s.image.width * size_.height <= s.image.height * size_.width) {  // the width is the limiting side
        height = longer(size_.width, s.image.height, s.image.width);
      } else {
        width = longer(size_.height, s.image.width, s.image.height);
      }
    }
    resize(s, height, width, interpolation_);
  }

 private:
  Arguments::Size size_;
  bool shorter_, cover_;
  Interpolation interpolation_;
};

// Returns `size` and `fit` after the pipeline's image size changes. A `size` for the shorter side ("224") becomes "H,W"
// with the new image's aspect ratio, and fit=cover.
TransformValues resize_for(const Arguments& a, const SizeChange& change) {
  Arguments::Size size = a.size("size");
  if (!Resize::by_shorter_side(a)) {
    TransformValues out{{"size", cat(change.height(size.height), ",", change.width(size.width))}};
    if (Resize::covers(a)) out["fit"] = "cover";
    return out;
  }
  const int64_t side = std::min(change.from.height, change.from.width);
  const SizeChange by_side{{side, side}, change.to};
  return {{"size", cat(by_side.height(size.height), ",", by_side.width(size.width))}, {"fit", "cover"}};
}

const TransformRegistration resize_row{{.name = "resize",
                                        .parameters = {"size", "interpolation=bilinear", "fit=fill"},
                                        .what = "the shorter side (224) or both (H,W), antialiased",
                                        .make = make_transform<Resize>,
                                        .sized = resize_for}};

}  // namespace

}  // namespace amp
