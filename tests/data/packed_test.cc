// Files that contain many images: pixels and labels as torchvision's datasets read them (tests/data/data/packed), and
// errors.
#include "data/images/packed.h"

#include <catch2/catch_all.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/npz.h"
#include "data/image_dataset.h"
#include "tests/errors.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;
using Ints = std::vector<int64_t>;
namespace fs = std::filesystem;

namespace {

std::string packed(const std::string& name) { return test_data("data/packed/" + name); }

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

void write(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

HostTensor golden(const std::string& name) {
  static const std::vector<NamedTensor> all = read_npz(packed("golden.npz"));
  const HostTensor* const t = find_tensor(all, name);
  REQUIRE(t);
  return *t;
}

const PackedColumns kColumns = {"path", "label"};

// Compares every pixel, and every label by its class index.
void compare(const std::string& file, const std::string& pixels, const std::string& labels, PackedColumns columns) {
  INFO(file);
  const PackedImages images = read_packed(packed(file));
  const HostTensor want = golden(pixels);
  std::vector<int64_t> got;
  for (int64_t i = 0; i < images.count; ++i) {
    const Image image = images.image(i);
    CHECK(image.height == want.dims()[1]);
    CHECK(image.width == want.dims()[2]);
    got.insert(got.end(), image.data.begin(), image.data.end());
  }
  CHECK(got == want.to_ints());
  const Table t = packed_table(packed(file), columns);
  const std::vector<std::string> classes = packed_classes(packed(file), columns);
  Ints ids;
  for (int64_t r = 0; r < t.rows(); ++r)
    ids.push_back(std::find(classes.begin(), classes.end(), t.text(r, 1)) - classes.begin());
  CHECK(ids == golden(labels).to_ints());
}

}  // namespace

TEST_CASE("pixels and labels of IDX and CIFAR files are torchvision's", "[packed]") {
  compare("tiny-images-idx3-ubyte", "idx_pixels", "idx_labels", kColumns);
  PackedColumns named = kColumns;
  named.label_files = packed("tiny-labels-idx1-ubyte");
  compare("packed-images-idx3-ubyte.gz", "idx_pixels", "idx_labels", named);
  compare("batch_10.bin", "cifar10_pixels", "cifar10_labels", kColumns);
  compare("batch_100.bin", "cifar100_pixels", "cifar100_labels", kColumns);
  compare("batch_100.bin", "cifar100_pixels", "cifar100_labels", {"path", "fine"});
  compare("batch_100.bin", "cifar100_pixels", "cifar100_coarse", {"path", "coarse"});
  CHECK(packed_classes(packed("batch_10.bin"), kColumns)[3] == "cat");
  CHECK(packed_classes(packed("batch_100.bin"), kColumns).size() == 100);
  const Table t = packed_table(packed("batch_10.bin"), kColumns);
  CHECK(t.text(1, 1) == "truck");
  CHECK(t.where(1) == packed("batch_10.bin") + "#1");
  CHECK(packed_table(packed("packed-images-idx3-ubyte.gz"), {"path", "", false}).rows() == 6);
}

TEST_CASE("the classes of an IDX file are in the order of their numbers", "[packed]") {
  const std::vector<std::string> classes = packed_classes(packed("tiny-images-idx3-ubyte"), kColumns);
  REQUIRE(classes.size() == 12);  // the largest label plus one
  CHECK(classes[2] == "2");
  CHECK(classes[11] == "11");
}

TEST_CASE("several files are one set, and batches hold their images", "[packed]") {
  const std::string both = packed("batch_10.bin") + "," + packed("batch_10.bin");
  const Table t = packed_table(both, kColumns);
  REQUIRE(t.rows() == 6);
  ImageOptions o;
  o.input = {"x", DType::f32, ImageInput::Layout::nhwc, 3, 32, 32};
  o.path_column = "path";
  o.label_column = "label";
  o.classes = packed_classes(both, kColumns);
  o.training = o.evaluation = std::make_shared<Pipeline>("to_float");
  const auto data = make_image_dataset(t, {{"x", DType::f32, Dims{-1, 32, 32, 3}}}, o, true);
  const Batch b = data->batch(Ints{1, 5});
  CHECK(b.labels.to_ints() == Ints{9, 0});
  const std::vector<double> x = b.inputs.at("x").to_doubles(), want = golden("cifar10_pixels").to_doubles();
  REQUIRE(x.size() == 2 * 3072);
  CHECK(std::equal(x.begin(), x.begin() + 3072, want.begin() + 3072));
  CHECK(std::equal(x.begin() + 3072, x.end(), want.begin() + 2 * 3072));
}

TEST_CASE("files of many images that cannot be used are refused with their place", "[packed]") {
  const TempDir dir;
  const std::string images = bytes_of(packed("tiny-images-idx3-ubyte"));
  const std::string labels = bytes_of(packed("tiny-labels-idx1-ubyte"));
  const std::string x = dir / "x-images-idx3-ubyte", y = dir / "x-labels-idx1-ubyte";
  const auto refused = [&](const std::string& id, const std::string& part, const std::string& bytes,
                           const std::string& label_bytes) {
    write(x, bytes);
    write(y, label_bytes);
    expect_error(id, part, [&] {
      packed_table(x, kColumns);
      read_packed(x);
    });
  };
  const auto changed = [](std::string bytes, size_t at, char to) {
    bytes[at] = to;
    return bytes;
  };
  refused("E_IDX", "x-images-idx3-ubyte', byte 0: begins with 50 00 08 03", changed(images, 0, 'P'), labels);
  refused("E_IDX", "numbers are of type 0d", changed(images, 2, 13), labels);
  refused("E_IDX", "byte 0: begins with 00 00 08 01: 1 dimension, images", labels, labels);
  refused("E_IDX", "cut short at byte 135, in image 5 (from 0) of 6", images.substr(0, 135), labels);
  refused("E_IDX", "cut short in its header, at byte 9", images.substr(0, 9), labels);
  refused("E_IDX", "has 3 bytes: no IDX header", images.substr(0, 3), labels);
  refused("E_IDX", "byte 136: 2 bytes follow the 6 image", images + "ab", labels);
  refused("E_DATA_EMPTY", "holds no images", changed(images, 7, 0), labels);
  refused("E_IMAGE_SIZE", "are more than", changed(changed(images, 8, 127), 12, 127), labels);
  refused("E_IDX", "x-labels-idx1-ubyte' holds 5 labels, '" + x + "' 6 images", images,
          changed(labels, 7, 5).substr(0, labels.size() - 1));
  refused("E_IDX", "x-labels-idx1-ubyte' is cut short at byte 12, in label 4", images, labels.substr(0, 12));
  refused("E_IDX", "x-labels-idx1-ubyte', byte 0: begins with 00 00 08 03", images, images);
  fs::remove(y);
  expect_error("E_IDX", "has no file of labels beside it: '" + y, [&] { packed_table(x, kColumns); });
  write(x + ".gz", bytes_of(packed("packed-images-idx3-ubyte.gz")).substr(0, 60));
  expect_error("E_DATA_GZIP", "in the middle of its gzip data", [&] { read_packed(x + ".gz"); });

  const std::string ten = bytes_of(packed("batch_10.bin")), hundred = bytes_of(packed("batch_100.bin"));
  const auto refused_cifar = [&](const std::string& id, const std::string& part, const std::string& bytes) {
    write(dir / "b.bin", bytes);
    expect_error(id, part, [&] { packed_table(dir / "b.bin", kColumns); });
  };
  refused_cifar("E_CIFAR", "has 9,218 bytes, which are no whole records", ten.substr(0, 9218));
  refused_cifar("E_CIFAR", "byte 3073: image 1 has a label that CIFAR-10 lacks", changed(ten, 3073, 10));
  refused_cifar("E_CIFAR", "byte 0: image 0 has a label that CIFAR-100 lacks", changed(hundred, 1, 100));
  refused_cifar("E_DATA_EMPTY", "is empty", "");
  expect_error(
      "E_USAGE", "is 2 files of images",
      [&] {
        PackedColumns one = kColumns;
        one.label_files = packed("tiny-labels-idx1-ubyte");
        packed_table(packed("tiny-images-idx3-ubyte") + "," + packed("tiny-images-idx3-ubyte"), one);
      },
      Exit::usage);
}
