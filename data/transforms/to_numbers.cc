// Implements torchvision's ToTensor, with and without the division by 255: pixels become floats (C, H, W).
#include "data/transforms/transform.h"

namespace amp {

namespace {

void make_numbers(ImageSample& s, float divisor) {
  const auto channels = static_cast<size_t>(s.image.channels), pixels = s.image.data.size() / channels;
  s.numbers.resize(s.image.data.size());
  for (size_t c = 0; c < channels; ++c) {
    float* const to = s.numbers.data() + c * pixels;
    const uint8_t* const from = s.image.data.data() + c;
    for (size_t i = 0; i < pixels; ++i) to[i] = static_cast<float>(from[i * channels]) / divisor;
  }
}

class ToTensor final : public Transform {
 public:
  explicit ToTensor(const Arguments&) {}
  void apply(ImageSample& s, Draws&) const override { make_numbers(s, 255); }
  NumberRange range(NumberRange before) const override { return {before.low / 255, before.high / 255}; }
};

class ToFloat final : public Transform {
 public:
  explicit ToFloat(const Arguments&) {}
  void apply(ImageSample& s, Draws&) const override { make_numbers(s, 1); }
};

const TransformRegistration scaled{{.name = "to_tensor",
                                    .stage = Stage::to_numbers,
                                    .what = "numbers from 0 to 1; what happens where none of the two is named",
                                    .make = make_transform<ToTensor>}};
const TransformRegistration plain{
    {.name = "to_float", .stage = Stage::to_numbers, .what = "numbers from 0 to 255", .make = make_transform<ToFloat>}};

}  // namespace

}  // namespace amp
