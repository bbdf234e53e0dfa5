// Images of several aspect ratios in batches of several sizes (tests/data/data/images/make_image_sizes_golden.py).
#include "data/image_sizes.h"

#include <catch2/catch_all.hpp>
#include <filesystem>
#include <fstream>

#include "base/npz.h"
#include "data/image_dataset.h"
#include "data/image_files.h"
#include "data/image_store.h"
#include "data/images/decoder.h"
#include "data/loader.h"
#include "data/subset.h"
#include "data/transforms/geometry.h"
#include "tests/data/image_files.h"
#include "tests/errors.h"

using namespace amp;
using namespace amp::test;
using Ints = std::vector<int64_t>;
namespace fs = std::filesystem;

namespace {

std::string file_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<ImageSize> pairs_of(const HostTensor& t) {
  const Ints v = t.to_ints();
  std::vector<ImageSize> out;
  for (size_t i = 0; i < v.size(); i += 2) out.push_back({v[i], v[i + 1]});
  return out;
}

// The golden parts of the picture as files of class folders, in their order.
struct Parts {
  TempDir dir;
  std::map<std::string, HostTensor> want;
  std::vector<ImageSize> sizes, nearest;
  int64_t count = 0;

  Parts() {
    for (const auto& [name, tensor] : read_npz(golden_image("image_sizes.npz"))) want[name] = tensor;
    sizes = pairs_of(want.at("sizes"));
    nearest = pairs_of(want.at("nearest"));
    const Image picture = ImageStore({}).read(golden_image("picture.png"), 3);
    const Ints boxes = want.at("boxes").to_ints();
    count = static_cast<int64_t>(boxes.size() / 4);
    for (int64_t i = 0; i < count; ++i) {
      const auto b = boxes.begin() + 4 * i;
      write_in_folder(dir / ("all/" + std::string(i % 2 ? "odd/" : "even/") + std::to_string(i) + ".png"),
                      encode_png(cropped(picture, b[0], b[1], b[2], b[3])));
    }
  }
  Table table() const { return class_folders(dir / "all"); }
  // Returns the part of the data that contains a row.
  static int64_t part(const Table& t, int64_t row) {
    return std::stoll(fs::path(std::string(t.text(row, 0))).stem().string());
  }
  ImageOptions options(const std::string& evaluation, const std::string& training = "none") const {
    ImageOptions o;
    o.input = {"x", DType::f32, ImageInput::Layout::nchw, 3, -1, -1};
    o.path_column = "path";
    o.label_column = "label";
    o.classes = {"even", "odd"};
    o.training = std::make_shared<Pipeline>(training);
    o.evaluation = std::make_shared<Pipeline>(evaluation);
    o.sizes = largest_first(sizes);
    return o;
  }
};

const std::vector<InputSpec> kInputs = {{"x", DType::f32, Dims{-1, 3, -1, -1}}};

}  // namespace

TEST_CASE("sizes are read, and what is none is not", "[image_sizes]") {
  CHECK(parse_image_size("192x256") == ImageSize{192, 256});
  CHECK(parse_image_size("1X65536") == ImageSize{1, 65536});
  CHECK(text_of({192, 256}) == "192x256");
  for (const char* bad :
       {"", "x", "10", "0x10", "10x0", "10x", "-1x5", "1x2x3", "65537x1", "9999999999x1", "1.5x2", "10 x 10", "tenx10"})
    CHECK(!parse_image_size(bad));
}

TEST_CASE("the nearest aspect ratio is so by its logarithm", "[image_sizes]") {
  const auto nearest = [](std::vector<ImageSize> sizes, ImageSize image) {
    sizes = largest_first(sizes);
    return text_of(sizes[nearest_size(sizes, image)]);
  };
  const std::vector<ImageSize> five = {{16, 64}, {16, 32}, {24, 24}, {32, 16}, {64, 16}};
  CHECK(nearest(five, {100, 100}) == "24x24");
  CHECK(nearest(five, {100, 141}) == "24x24");  // 141 / 100 is below the square root of 2
  CHECK(nearest(five, {100, 142}) == "16x32");
  CHECK(nearest(five, {141, 100}) == "24x24");
  CHECK(nearest(five, {142, 100}) == "32x16");
  CHECK(nearest(five, {100, 282}) == "16x32");
  CHECK(nearest(five, {1, 60000}) == "16x64");
  CHECK(nearest(five, {3000, 10}) == "64x16");
  // At equal distance the larger size is chosen, at equal area the first one.
  CHECK(nearest({{16, 16}, {10, 40}}, {10, 20}) == "10x40");
  CHECK(nearest({{10, 40}, {21, 21}}, {10, 20}) == "21x21");
  CHECK(nearest({{16, 16}, {8, 32}}, {10, 20}) == "16x16");
  CHECK(nearest({{8, 32}, {16, 16}}, {10, 20}) == "8x32");
  CHECK(nearest({{65535, 65536}, {65536, 65536}}, {65534, 65535}) == "65535x65536");  // nearer by 1e-10
}

TEST_CASE("a size is found without decoding, as decoding finds it", "[image_sizes]") {
  const ImageStore store({});
  int files = 0;
  for (const auto& entry : fs::directory_iterator(golden_image(""))) {
    const std::string path = entry.path().string();
    if (!has_image_extension(path)) continue;
    INFO(path);
    const Image image = store.read(path, 3);
    CHECK(store.size(path) == ImageSize{image.height, image.width});
    ++files;
  }
  CHECK(files == 70);
  const std::string packed = test_data("data/packed/tiny-images-idx3-ubyte#0");
  const ImageStore one({packed});
  const Image image = one.read(packed, 1);
  CHECK(one.size(packed) == ImageSize{image.height, image.width});
}

TEST_CASE("the beginning of a file tells the right size, or none", "[image_sizes]") {
  int told = 0, not_told = 0;
  for (const auto& entry : fs::directory_iterator(golden_image(""))) {
    const std::string path = entry.path().string();
    if (!has_image_extension(path)) continue;
    INFO(path);
    const std::string bytes = file_bytes(path);
    const ImageSize size = ImageStore({}).size(path);
    for (size_t n = 1; n < bytes.size(); n += 1 + n / 16) {
      INFO(n);
      try {
        const auto found = image_size({std::string_view(bytes).substr(0, n), path, false, false});
        if (found) CHECK(*found == size);
        ++(found ? told : not_told);
      } catch (const Error& e) {
        CHECK(e.exit() == Exit::data);
      }
    }
  }
  CHECK(told > 100);
  CHECK(not_told > 100);
}

TEST_CASE("sizes are found in files whose orientation stands behind many bytes", "[image_sizes]") {
  const TempDir dir;
  const ImageStore store({});
  const std::string profile(60000, 'p');  // two unused segments before the one with the orientation
  const std::string segment = std::string("\xff\xe2\xea\x62", 4) + profile;
  std::string jpeg = file_bytes(golden_image("turned_6.jpg"));
  write_in_folder(dir / "a.jpg", jpeg.substr(0, 2) + segment + segment + jpeg.substr(2));
  CHECK(store.size(dir / "a.jpg") == store.size(golden_image("turned_6.jpg")));
  // A PNG of random pixels, over 64 KiB, with the chunk moved after the pixels.
  const std::string turned = file_bytes(golden_image("turned.png"));
  const size_t at = turned.find("eXIf") - 4;
  const size_t size =
      12 + static_cast<unsigned char>(turned[at + 2]) * 256 + static_cast<unsigned char>(turned[at + 3]);
  Image noise(300, 200, 3);
  uint32_t state = 1;
  for (uint8_t& v : noise.data) v = static_cast<uint8_t>((state = state * 1664525 + 1013904223) >> 24);
  const std::string png = encode_png(noise);
  REQUIRE(png.size() > 100000);
  write_in_folder(dir / "b.png",
                  png.substr(0, png.size() - 12) + turned.substr(at, size) + png.substr(png.size() - 12));
  const Image upright = store.read(dir / "b.png", 3);
  CHECK(store.size(dir / "b.png") == ImageSize{upright.height, upright.width});
  CHECK(upright.width == 200);
  write_in_folder(dir / "c.png", png);
  CHECK(store.size(dir / "c.png") == ImageSize{200, 300});
  for (const char* name : {"a.jpg", "b.png", "c.png"}) {
    write_in_folder(dir / "cut", file_bytes(dir / name).substr(0, 20));
    expect_error("E_IMAGE", "cut", [&] { (void)store.size(dir / "cut"); });
  }
  write_in_folder(dir / "none", "");
  expect_error("E_IMAGE", "empty", [&] { (void)store.size(dir / "none"); });
  write_in_folder(dir / "text", "not a picture");
  expect_error("E_IMAGE_KIND", "text", [&] { (void)store.size(dir / "text"); });
}

TEST_CASE("a pipeline for one size becomes one for another", "[image_sizes][transforms]") {
  const auto to = [](const std::string& text, ImageSize size) { return Pipeline(text).text_for(size); };
  CHECK(to("resize 256 | center_crop 224 | normalize imagenet", {192, 256}) ==
        "resize 219,293 fit=cover | center_crop 192,256 | normalize imagenet");
  CHECK(to("resize 256 interpolation=bicubic | center_crop 224", {224, 224}) ==
        "resize 256,256 interpolation=bicubic fit=cover | center_crop 224,224");
  CHECK(to("resize 224,224 bicubic | horizontal_flip", {100, 50}) == "resize 100,50 bicubic | horizontal_flip");
  CHECK(to("resize 224 | to_float", {100, 50}) == "resize 100,50 fit=cover | center_crop 100,50 | to_float");
  CHECK(to("resize size=40,40 | random_crop size=32 padding=4 | horizontal_flip", {16, 64}) ==
        "resize size=20,80 | random_crop size=16,64 padding=4 | horizontal_flip");
  CHECK(to("horizontal_flip | to_float", {8, 9}) ==
        "resize 8,9 fit=cover | center_crop 8,9 | horizontal_flip | to_float");
  CHECK(to("none", {8, 9}) == "resize 8,9 fit=cover | center_crop 8,9");
  CHECK(to("random_resized_crop 224 scale=0.3,1 | normalize clip", {112, 448}) ==
        "random_resized_crop 112,448 scale=0.3,1 ratio=3,5.333333333333333 | normalize clip");
  CHECK(to("random_resized_crop 100,200 0.3,1 1.5,3", {100, 100}) == "random_resized_crop 100,100 0.3,1 0.75,1.5");
  CHECK(to("resize 60,80 fit=cover | center_crop 60,80", {30, 80}) == "resize 30,80 fit=cover | center_crop 30,80");
  expect_error(
      "E_TRANSFORM", "fill or cover", [] { Pipeline("resize 5,5 fit=contain"); }, Exit::usage);
  for (const char* text : {"resize 256 | center_crop 224 | normalize imagenet", "none", "random_resized_crop 9"}) {
    const std::string once = to(text, {24, 40});
    CHECK(Pipeline(once).text() == once);
    CHECK(to(once, {24, 40}) == once);
  }
}

TEST_CASE("images of each size are torchvision's Resize and CenterCrop, bit for bit", "[image_sizes]") {
  const Parts parts;
  const Table t = parts.table();
  const auto [steps, name] =
      GENERATE(std::pair{"resize 14 | normalize imagenet", "cover"}, std::pair{"normalize imagenet", "cover"},
               std::pair{"resize 16 | center_crop 14 | normalize imagenet", "larger"},
               std::pair{"resize 100,100 | normalize imagenet", "exact"});
  const ImageOptions o = parts.options(steps);
  const auto data = make_image_dataset(t, kInputs, o, false);
  for (int64_t row = 0; row < parts.count; ++row) {
    const int64_t part = Parts::part(t, row);
    INFO(steps << ", part " << part);
    CHECK(o.sizes[static_cast<size_t>(data->buckets()[static_cast<size_t>(row)])] ==
          parts.nearest[static_cast<size_t>(part)]);
    const Batch b = data->batch(Ints{row});
    const HostTensor& want = parts.want.at(std::string(name) + " " + std::to_string(part));
    CHECK(b.inputs.at("x").to_doubles() == want.to_doubles());
    CHECK(b.inputs.at("x").dims().back() == want.dims().back());
  }
}

TEST_CASE("batches hold one size, each sample once, the same for any number of threads", "[image_sizes][threads]") {
  const Parts parts;
  const Table t = parts.table();
  ImageOptions o = parts.options("resize 14", "random_resized_crop 14 | horizontal_flip");
  std::vector<std::vector<double>> seen;
  for (const int threads : {1, 3}) {
    o.threads = threads;
    const std::shared_ptr<const Dataset> data = make_image_dataset(t, kInputs, o, true);
    SamplerOptions s;
    s.batch_size = 2;
    WindowLoader loader(*data, make_sampler(*data, s), 2);
    std::vector<double> all;
    Ints samples;
    while (const auto window = loader.next()) {
      const Batch& b = window->batches.at(0);
      const ImageSize size = o.sizes[static_cast<size_t>(data->buckets()[static_cast<size_t>(b.samples[0])])];
      CHECK(b.inputs.at("x").dims() == Dims{b.rows, 3, size.height, size.width});
      samples.insert(samples.end(), b.samples.begin(), b.samples.end());
      const std::vector<double> x = b.inputs.at("x").to_doubles();
      all.insert(all.end(), x.begin(), x.end());
    }
    for (int64_t i = 0; i < parts.count; ++i) CHECK(std::count(samples.begin(), samples.end(), i) == 2);
    seen.push_back(all);
    // Evaluation uses the same buckets, also for a part of the data.
    const auto evaluated = data->for_evaluation();
    CHECK(std::equal(evaluated->buckets().begin(), evaluated->buckets().end(), data->buckets().begin()));
    const auto part = make_subset(data, {7, 2});
    CHECK(part->buckets()[0] == data->buckets()[7]);
    CHECK(part->buckets()[1] == data->buckets()[2]);
  }
  CHECK(seen[0] == seen[1]);
}

TEST_CASE("masks go to the size of their images", "[image_sizes]") {
  const TempDir dir;
  const auto mask = [](int width, int height) {  // class 1 on the right half
    std::string bytes = "P5 " + std::to_string(width) + " " + std::to_string(height) + " 255\n";
    for (int i = 0; i < width * height; ++i) bytes += static_cast<char>(i % width >= width / 2);
    return bytes;
  };
  const std::vector<std::pair<int, int>> sizes = {{20, 10}, {10, 20}, {12, 12}};
  for (size_t i = 0; i < sizes.size(); ++i) {
    write_in_folder(dir / ("images/" + std::to_string(i) + ".pgm"), mask(sizes[i].first, sizes[i].second));
    write_in_folder(dir / ("masks/" + std::to_string(i) + ".pgm"), mask(sizes[i].first, sizes[i].second));
  }
  ImageOptions o;
  o.input = {"x", DType::f32, ImageInput::Layout::nchw, 1, -1, -1};
  o.path_column = "path";
  o.label_column = "label";
  o.labels = LabelForm::masks;
  o.training = o.evaluation = std::make_shared<Pipeline>("resize 64,64 interpolation=nearest | to_float");
  o.sizes = largest_first({{16, 8}, {8, 16}, {8, 8}});
  const auto data = make_image_dataset(masked_images(dir / "images", dir / "masks"), kInputs, o, false);
  const std::vector<Dims> want = {{1, 8, 16}, {1, 16, 8}, {1, 8, 8}};
  for (int64_t i = 0; i < 3; ++i) {
    const Batch b = data->batch(Ints{i});
    CHECK(b.labels.dims() == want[static_cast<size_t>(i)]);
    CHECK(b.labels.to_doubles() == b.inputs.at("x").to_doubles());
    CHECK(b.valid_items == b.labels.numel());
  }
}
