// Mixup and CutMix against timm's (make_mixing_golden.py).
#include "data/transforms/mixing.h"

#include <catch2/catch_all.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support.h"

using namespace amp;

namespace {

using Floats = std::vector<float>;
using Layout = ImageInput::Layout;

Floats floats(const HostTensor& t) { return {t.as<float>(), t.as<float>() + t.numel()}; }

// Converts (N, C, H, W) to (N, H, W, C).
HostTensor channels_last(const HostTensor& t) {
  const Dims d = t.dims();
  HostTensor out = HostTensor::empty(DType::f32, {d[0], d[2], d[3], d[1]});
  for (int64_t n = 0; n < d[0]; ++n)
    for (int64_t c = 0; c < d[1]; ++c)
      for (int64_t i = 0; i < d[2] * d[3]; ++i)
        out.as_mutable<float>()[(n * d[2] * d[3] + i) * d[1] + c] = t.as<float>()[(n * d[1] + c) * d[2] * d[3] + i];
  return out;
}

void close(const Floats& have, const Floats& want) {
  REQUIRE(have.size() == want.size());
  for (size_t i = 0; i < want.size(); ++i)
    CHECK(std::abs(have[i] - want[i]) <= 1e-6F * std::max(1.0F, std::abs(want[i])));
}

// Returns images (rows, 1, 2, 2). All pixels of an image are its number, and its class is the number % 3.
class Numbered final : public Dataset {
 public:
  int64_t size() const override { return 10; }
  Batch batch(std::span<const int64_t> samples) const override {
    Batch b;
    b.rows = static_cast<int64_t>(samples.size());
    Floats pixels;
    std::vector<int64_t> labels;
    for (const int64_t s : samples) {
      pixels.insert(pixels.end(), 4, static_cast<float>(s));
      labels.push_back(s % 3);
    }
    b.inputs["x"] = HostTensor::of<float>({b.rows, 1, 2, 2}, pixels);
    b.labels = HostTensor::of<int64_t>({b.rows}, labels);
    b.samples.assign(samples.begin(), samples.end());
    return b;
  }
  std::string where(int64_t) const override { return "x"; }
  void check_token_range(const std::string&, int64_t) const override {}
  void check_label_range(int64_t, int64_t) const override {}
};

}  // namespace

TEST_CASE("images and labels are mixed as timm mixes them", "[mixing]") {
  std::ifstream in(test::test_data("data/mixing.json"));
  const auto cases = nlohmann::json::parse(in);
  REQUIRE(cases.size() == 5);
  for (const auto& c : cases) {
    const Dims dims = c["dims"].get<Dims>();
    const double share = c["share"];
    const Mix mix = c["cut"] ? cut_about(c["y"], c["x"], share, dims[2], dims[3]) : Mix{share};
    HostTensor images = HostTensor::of<float>(dims, c["images"].get<Floats>());
    HostTensor last = channels_last(images);
    const HostTensor want = HostTensor::of<float>(dims, c["mixed"].get<Floats>());
    mix_images(images, Layout::nchw, mix);
    close(floats(images), floats(want));
    mix_images(last, Layout::nhwc, mix);
    close(floats(last), floats(channels_last(want)));
    const auto ids = c["labels"].get<std::vector<int64_t>>();
    close(floats(mix_labels(HostTensor::of<int64_t>({dims[0]}, ids), c["classes"], mix.share)),
          c["target"].get<Floats>());
  }
}

// Beta(a, a) has the mean 1/2 and the variance 1 / (4 (2 a + 1)); limits are five standard errors.
TEST_CASE("shares are of a beta distribution", "[mixing]") {
  constexpr int kDraws = 20000;
  for (const double alpha : {0.1, 0.2, 0.8, 1.0, 3.0}) {
    MixingOptions o;
    o.mixup = alpha;
    double sum = 0, squares = 0, fourth = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double d = draw_mix(o, i % 7, i, 8, 8).share - 0.5;
      CHECK(std::abs(d) <= 0.5);
      sum += d;
      squares += d * d;
      fourth += d * d * d * d;
    }
    const double n = kDraws, variance = 1 / (4 * (2 * alpha + 1));
    CHECK(std::abs(sum / n) < 5 * std::sqrt(variance / n));
    CHECK(std::abs(squares / n - variance) < 5 * std::sqrt((fourth / n - variance * variance) / n));
  }
}

TEST_CASE("what is mixed goes by seed, epoch and batch, and only training's batches are", "[mixing]") {
  MixingOptions o;
  o.mixup = 0.4;
  o.cutmix = 1;
  int cut = 0, both = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    const Mix m = draw_mix(o, 1, i, 16, 12), again = draw_mix(o, 1, i, 16, 12);
    CHECK((m.share == again.share && m.cut == again.cut && m.top == again.top && m.left == again.left));
    cut += m.cut;
    both += m.cut && m.share < 1;
    CHECK((m.share >= 0 && m.share <= 1 && m.top <= m.bottom && m.bottom <= 16 && m.left <= m.right && m.right <= 12));
  }
  CHECK((cut > 420 && cut < 580 && both > 300));
  o.cutmix = 0;
  o.off_epoch = 2;
  ImageInput input;
  input.name = "x";
  const auto data = make_mixed_dataset(std::make_shared<Numbered>(), input, 3, o);
  const std::vector<int64_t> samples{4, 7, 9};
  const Batch one = data->training_batch(samples, 1);
  const auto share = static_cast<float>(draw_mix(o, 1, 4, 2, 2).share);
  REQUIRE((share > 0 && share < 1));
  CHECK(one.labels.dims() == Dims{3, 3});
  close(floats(one.labels), {1 - share, share, 0, 0, 1, 0, share, 1 - share, 0});
  const Floats pixels = floats(one.inputs.at("x"));
  CHECK(std::abs(pixels[0] - (4 * share + 9 * (1 - share))) < 1e-5F);
  CHECK(pixels[4] == 7);
  CHECK(one.valid_items == 3);
  CHECK(floats(data->training_batch(samples, 1).inputs.at("x")) == pixels);
  CHECK(floats(data->training_batch(samples, 0).inputs.at("x")) != pixels);
  CHECK(floats(data->training_batch(samples, 2).inputs.at("x"))[0] == 4);  // epoch 2: off_epoch
  CHECK(data->training_batch(samples, 2).labels.to_ints() == std::vector<int64_t>{1, 1, 0});
  CHECK(floats(data->batch(samples).inputs.at("x"))[0] == 4);
}
