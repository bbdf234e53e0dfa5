// Image preprocessing from configuration files next to a model, against transformers and timm
// (tests/data/data/images/make_preprocessor_golden.py).
#include "run/data/preprocessor_config.h"

#include <catch2/catch_all.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/npz.h"
#include "data/images/decoder.h"
#include "data/transforms/pipeline.h"
#include "tests/support.h"

using namespace amp;
using nlohmann::json;

namespace {

std::string folder() { return test::test_data("data/images/"); }

json configs() { return json::parse(read_file(folder() + "preprocessors.json").text()); }

std::string refusal(json config, const json& change) {
  config.merge_patch(change);
  std::string why;
  CHECK_FALSE(read_image_processing(config, false, why));
  return why;
}

}  // namespace

TEST_CASE("files of image processors make of a picture what transformers and timm make of it") {
  const auto file = read_file(folder() + "picture.png");
  const Image picture = decode_image({file.text(), "picture.png"});
  const json all = configs();
  size_t seen = 0;
  for (const auto& [name, want] : read_npz(folder() + "preprocessed.npz")) {
    INFO(name);
    ++seen;
    std::string why;
    const auto got = read_image_processing(all.at(name), false, why);
    REQUIRE(got);
    INFO(got->evaluation);
    ImageSample sample{picture, std::nullopt};
    Draws draws(1, 0, 0);
    Pipeline(got->evaluation).apply(sample, draws);
    REQUIRE(Dims{3, sample.image.height, sample.image.width} == want.dims());
    const std::vector<double> w = want.to_doubles();
    REQUIRE(w.size() == sample.numbers.size());
    double worst = 0;
    for (size_t i = 0; i < w.size(); ++i)
      worst = std::max(worst, std::abs(w[i] - static_cast<double>(sample.numbers[i])) / std::max(1.0, std::abs(w[i])));
    CHECK(worst < 1e-6);
    ImageSample trained{picture, std::nullopt};
    Pipeline(got->training).apply(trained, draws);
    CHECK(trained.numbers.size() == sample.numbers.size());
  }
  CHECK(seen == 8);
}

TEST_CASE("image processing that is not understood is not taken, and what it is of is said") {
  const json all = configs();
  CHECK(refusal(all["vit"], {{"do_pad", true}}) == "'do_pad'");
  CHECK(refusal(all["vit"], {{"resample", nullptr}}) == "no 'resample'");
  CHECK(refusal(all["vit"], {{"rescale_factor", 0.5}}) == "its rescaling");
  CHECK(refusal(all["vit"], {{"image_mean", "x"}}) == "'image_mean'");
  CHECK(refusal(all["clip"], {{"size", {{"longest_edge", 9}}}}).starts_with("'size'"));
  CHECK(refusal(all["clip"], {{"crop_size", -4}}) == "'crop_size'");
  CHECK(refusal(all["timm_center"], {{"pretrained_cfg", {{"crop_mode", "border"}}}}) == "crop_mode 'border'");
  CHECK(refusal(all["timm_center"], {{"pretrained_cfg", {{"interpolation", "magic"}}}}) == "interpolation 'magic'");
  CHECK(refusal(json{{"model_type", "bert"}}, json::object()).empty());
  CHECK(refusal(json::parse("[]"), json::object()).empty());

  const test::TempDir dir;
  std::string said;
  const Log log([&](Level, const std::string& text) { said += text + "\n"; });
  CHECK_FALSE(image_processing_of(dir / "model.onnx", false, log));
  std::ofstream(dir / "preprocessor_config.json") << "{";
  CHECK_FALSE(image_processing_of(dir / "model.onnx", false, log));
  CHECK(said.empty());
  std::ofstream(dir / "preprocessor_config.json") << R"({"do_resize": true, "size": 8})";
  CHECK_FALSE(image_processing_of(dir / "model.onnx", false, log));
  CHECK(said.find("no 'resample'") != std::string::npos);
  std::ofstream(dir / "preprocessor_config.json") << all["vit"];
  const auto found = image_processing_of(dir / "model.onnx", true, log);
  REQUIRE(found);
  CHECK(found->evaluation == "resize 18,20 interpolation=bilinear | normalize mean=0.5,0.5,0.5 std=0.5,0.5,0.5");
  CHECK(found->training.find("| horizontal_flip |") != std::string::npos);
  // A random crop would not keep the whole image, which masks require.
  CHECK(found->training.find("random") == std::string::npos);
}
