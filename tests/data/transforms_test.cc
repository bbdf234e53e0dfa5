// Image transforms against torchvision, bit for bit (tests/data/data/images/make_image_golden.py), and random
// decisions.
#include <catch2/catch_all.hpp>
#include <cctype>
#include <set>

#include "base/npz.h"
#include "base/text.h"
#include "data/image_dataset.h"
#include "data/image_store.h"
#include "data/transforms/auto_augment.h"
#include "data/transforms/geometry.h"
#include "data/transforms/photo.h"
#include "data/transforms/pipeline.h"
#include "data/transforms/resample.h"
#include "tests/errors.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;

namespace {

std::string folder() { return test_data("data/images/"); }
Image picture() { return ImageStore({}).read(folder() + "picture.png", 3); }

std::vector<float> numbers_of(const ImageSample& s) { return s.numbers; }

ImageSample through(const std::string& pipeline, Image image, int64_t sample = 0, int64_t epoch = 0) {
  ImageSample s{std::move(image), std::nullopt};
  Draws draws(42, epoch, sample);
  Pipeline(pipeline).apply(s, draws);
  return s;
}

// Bytes are compared after their conversion to numbers between 0 and 1.
void check_same(const ImageSample& got, const HostTensor& want) {
  const bool bytes = want.dtype() == DType::u8;
  const int64_t c = got.channels(), h = got.image.height, w = got.image.width;
  REQUIRE(want.dims() == (!bytes ? Dims{c, h, w} : c == 1 ? Dims{h, w} : Dims{h, w, c}));
  const std::vector<double> x = want.to_doubles();
  int64_t wrong = 0;
  for (int64_t i = 0; i < want.numel(); ++i) {
    const int64_t at = bytes ? i % c * h * w + i / c : i;
    const float wanted =
        bytes ? static_cast<float>(x[static_cast<size_t>(i)]) / 255.0f : static_cast<float>(x[static_cast<size_t>(i)]);
    wrong += numbers_of(got)[static_cast<size_t>(at)] != wanted;
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("transforms are torchvision's, bit for bit", "[transforms]") {
  size_t seen = 0;
  for (const auto& [name, want] : read_npz(folder() + "transformed.npz")) {
    const std::string which = name.substr(0, name.find(':')), text = name.substr(name.find(':') + 2);
    INFO(name);
    if (which == "mask") {
      const Mask mask = read_mask(folder() + "mask.png", {});
      const Arguments a("resize", split(text.substr(7), ' '), std::vector<std::string>{"size"});
      const Mask got = resized_nearest(mask, a.size("size").height, a.size("size").width);
      const std::vector<int64_t> w = want.to_ints();
      for (size_t i = 0; i < w.size(); ++i) CHECK(got.data[i] == (w[i] == 255 ? kNoClass : w[i]));
    } else if (std::isupper(static_cast<unsigned char>(text[0]))) {  // an operation and its magnitude
      ImageSample s{which == "grey" ? to_grey(picture()) : picture(), std::nullopt};
      const std::string operation = text.substr(0, text.find(' '));
      const double magnitude = std::stod(text.substr(operation.size()));
      if (operation == "Hue") {
        s.image = adjust_hue(s.image, magnitude);
      } else {
        augment(s, operation, magnitude);
      }
      check_same(through("none", s.image), want);
    } else if (text.starts_with("crop ")) {
      std::vector<int64_t> v;
      for (const std::string& word : split(text.substr(5), ' ')) v.push_back(std::stoll(word));
      ImageSample s{picture(), std::nullopt};
      crop(s, v[0], v[1], v[2], v[3]);
      resize(s, v[4], v[5], Interpolation::bilinear);
      check_same(through("none", s.image), want);
    } else {
      check_same(through(text, which == "grey" ? to_grey(picture()) : picture()), want);
    }
    ++seen;
  }
  CHECK(seen > 160);
}

TEST_CASE("chance is a function of seed, epoch and sample", "[transforms]") {
  const std::string text = "random_resized_crop 16 | horizontal_flip | normalize imagenet";
  const ImageSample a = through(text, picture(), 3, 1);
  CHECK(a.numbers == through(text, picture(), 3, 1).numbers);
  CHECK(a.numbers != through(text, picture(), 3, 2).numbers);
  CHECK(a.numbers != through(text, picture(), 4, 1).numbers);
  CHECK(Pipeline(text).random());
  CHECK_FALSE(Pipeline("resize 3 | center_crop 2").random());
}

TEST_CASE("random crops lie everywhere, with the areas and ratios that were asked for", "[transforms]") {
  Image ramp(100, 80, 3);
  for (int64_t y = 0; y < 80; ++y) {
    for (int64_t x = 0; x < 100; ++x) {
      ramp.row(y)[3 * x] = static_cast<uint8_t>(x);
      ramp.row(y)[3 * x + 1] = static_cast<uint8_t>(y);
    }
  }
  std::set<int> lefts;
  double mirrored_count = 0;
  for (int64_t s = 0; s < 400; ++s) {
    const ImageSample part = through("random_crop 80,60 | to_float", ramp, s);
    lefts.insert(static_cast<int>(part.numbers[0]));
    const ImageSample flipped = through("horizontal_flip | to_float", ramp, s);
    mirrored_count += flipped.numbers[0] == 99;
    // The crop must have 8 % to 100 % of the area. Its sides follow from the values at the ends of the ramps; the
    // first and the last pixel are half a pixel inside the crop.
    const ImageSample box = through("random_resized_crop 50 interpolation=nearest | to_float", ramp, s);
    const double width = (box.numbers[49] - box.numbers[0]) / 49 * 50;
    const double height = (box.numbers[2500 + 49 * 50] - box.numbers[2500]) / 49 * 50;
    CHECK(width * height > 0.08 * 8000 * 0.8);
    CHECK(width / height > 0.75 * 0.85);
    CHECK(width / height < 1.34 * 1.15);
  }
  CHECK(lefts.size() == 41);
  CHECK(*lefts.rbegin() == 40);
  CHECK(mirrored_count > 150);  // expected: 200, with a standard deviation of 10
  CHECK(mirrored_count < 250);
}

TEST_CASE("jitter, rotation, erasing and the automatic ones do something, within what was asked for", "[transforms]") {
  std::set<std::vector<float>> seen;
  const Image image = picture();
  for (const char* text : {"color_jitter brightness=0.4 contrast=0.4 saturation=0.4 hue=0.1", "rotation 20",
                           "random_erasing 1", "rand_augment", "trivial_augment", "random_erasing 1 value=random"}) {
    INFO(text);
    seen.clear();
    for (int64_t s = 0; s < 40; ++s) {
      const ImageSample out = through(text, image, s);
      CHECK(out.image.width == image.width);
      CHECK(out.numbers.size() == image.data.size());
      seen.insert(out.numbers);
    }
    CHECK(seen.size() > 20);
  }
  CHECK(through("color_jitter", image).numbers == through("none", image).numbers);
  CHECK(through("color_jitter brightness=1.4,1.4", image).numbers ==
        through("none", adjust_brightness(image, 1.4)).numbers);
  CHECK(through("random_erasing 0", image).numbers == through("none", image).numbers);
  int64_t zeros = 0;
  for (const float v : through("random_erasing 1 scale=0.25,0.25 ratio=1,1", Image(40, 40, 1, 255)).numbers)
    zeros += v == 0;
  CHECK(zeros == 400);
}

TEST_CASE("masks get the geometry of their images", "[transforms]") {
  Image image(20, 14, 1);
  for (size_t i = 0; i < image.data.size(); ++i) image.data[i] = static_cast<uint8_t>(i % 251);
  Mask mask(20, 14, 1);
  for (size_t i = 0; i < mask.data.size(); ++i) mask.data[i] = image.data[i];
  for (int64_t s = 0; s < 50; ++s) {
    ImageSample sample{image, mask};
    Draws draws(1, 0, s);
    Pipeline(
        "random_resized_crop 9,7 interpolation=nearest | horizontal_flip | vertical_flip | random_crop 9,7 padding=2 "
        "| center_crop 11,11 | to_float")
        .apply(sample, draws);
    REQUIRE(sample.mask->data.size() == sample.numbers.size());
    for (size_t i = 0; i < sample.numbers.size(); ++i) {
      const int16_t m = sample.mask->data[i];
      CHECK((m == kNoClass ? 0 : m) == static_cast<int>(sample.numbers[i]));
    }
  }
}

TEST_CASE("pipelines are read, and refused with a reason", "[transforms]") {
  CHECK(Pipeline("  resize   4,5|center_crop 3 ").text() == "resize 4,5 | center_crop 3");
  CHECK(Pipeline("").text() == "none");
  CHECK(Pipeline("normalize imagenet").range().low == Catch::Approx(-2.118).epsilon(1e-3));
  const auto refused = [](const std::string& text, const std::string& part) {
    expect_error(
        "E_TRANSFORM", part, [&] { Pipeline p(text); }, Exit::usage);
  };
  refused("resise 4", "'resize'");
  refused("resize", "needs its size");
  refused("resize 0", "a side in pixels");
  refused("resize 4,5,6", "HEIGHT,WIDTH");
  refused("resize 4 5", "interpolation '5' is not one of");
  refused("resize 4 bilinear fill 6", "one value too many");
  refused("resize 4 bilinear 6", "fill or cover");
  refused("resize 4 interpolation=cubic", "bicubic");
  refused("resize 4 size=5", "given already");
  refused("horizontal_flip p=2", "from 0 to 1");
  refused("normalize imagenet | resize 4", "pixels");
  refused("to_tensor | to_float", "pixels");
  refused("normalize 0.5", "std");
  refused("normalize 0.5 0", "above 0");
  refused("normalize moon", "imagenet");
  refused("random_resized_crop 4 scale=1,0.5", "the smaller first");
}
