// GIF, BMP and TIFF against Pillow (tests/data/data/images/make_kinds_golden.py), and class folders with such files.
#include <catch2/catch_all.hpp>
#include <filesystem>

#include "base/file.h"
#include "base/npz.h"
#include "data/image_files.h"
#include "data/images/decoder.h"
#include "tests/data/image_files.h"
#include "tests/errors.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string kinds_bytes(const std::string& name) { return std::string(read_file(golden_image(name)).text()); }

std::vector<NamedTensor> kinds_golden() { return read_npz(golden_image("decoded_kinds.npz")); }

}  // namespace

TEST_CASE("GIF, BMP and TIFF are decoded as Pillow does", "[images]") {
  size_t seen = 0;
  for (const auto& [name, want] : kinds_golden()) {
    INFO(name);
    const std::string bytes = kinds_bytes(name);
    const Image image = decode_image({bytes, name});
    const Dims dims = image.channels == 1 ? Dims{image.height, image.width} : Dims{image.height, image.width, 3};
    REQUIRE(want.dims() == dims);
    CHECK(image_size({bytes, name}) == ImageSize{image.height, image.width});
    const std::vector<int64_t> w = want.to_ints();
    int worst = 0;
    for (size_t i = 0; i < w.size(); ++i) worst = std::max(worst, std::abs(static_cast<int>(w[i]) - image.data[i]));
    // Pillow contains a newer libjpeg-turbo, whose last bit may differ. Other formats are exact.
    CHECK(worst <= (name == "jpeg.tif" ? 1 : 0));
    ++seen;
  }
  CHECK(seen == 36);
}

TEST_CASE("frames and pages are counted, and palettes are masks", "[images]") {
  const auto frames = [](const std::string& name) { return image_frames({kinds_bytes(name), name}); };
  CHECK(frames("animated.gif") == 2);
  CHECK(frames("pages.tif") == 2);
  for (const char* one : {"picture.gif", "interlaced.gif", "offset.gif", "picture.tif", "picture.bmp", "picture.png"})
    CHECK(frames(one) == 1);
  const auto mask = [](const std::string& name) { return decode_image({kinds_bytes(name), name, true}); };
  for (const char* name : {"palette.tif", "palette.bmp", "picture.gif"}) {
    const Image m = mask(name);
    CHECK(m.channels == 1);
    CHECK(*std::max_element(m.data.begin(), m.data.end()) == 10);
  }
  expect_error("E_MASK", "colors", [&] { mask("picture.tif"); });
  expect_error("E_MASK", "colors", [&] { mask("picture.bmp"); });
  expect_error("E_MASK", "16 bits", [&] { mask("deep_grey.tif"); });
}

TEST_CASE("damaged GIF, BMP and TIFF files are refused, never read beyond their end", "[images]") {
  for (const auto& [name, want] : kinds_golden()) {
    const std::string whole = kinds_bytes(name);
    for (size_t n = 0; n < whole.size(); n += 1 + n / 16) {
      INFO(name << " cut at " << n);
      try {
        const Image image = decode_image({std::string_view(whole).substr(0, n), name});
        CHECK(image.data.size() == static_cast<size_t>(image.width * image.height * image.channels));
      } catch (const Error& e) {
        CHECK(e.exit() == Exit::data);
      }
    }
  }
  const auto changed = [](const std::string& name, size_t at, const std::string& bytes) {
    std::string out = kinds_bytes(name);
    return out.replace(at, bytes.size(), bytes);
  };
  using namespace std::string_literals;
  const auto decoded = [](const std::string& bytes) { return decode_image({bytes, "x"}); };
  expect_error("E_IMAGE_SIZE", "65535", [&] { decoded(changed("picture.gif", 6, "\xff\xff\xff\xff"s)); });
  expect_error("E_IMAGE", "cannot hold", [&] { decoded(changed("picture.gif", 6, "\0\x30\0\x30"s)); });
  expect_error("E_IMAGE_SIZE", "2147483647", [&] { decoded(changed("picture.bmp", 18, "\xff\xff\xff\x7f"s)); });
  expect_error("E_IMAGE", "cannot hold", [&] { decoded(changed("picture.bmp", 18, "\0\x30\0\0"s)); });
  expect_error("E_IMAGE_KIND", "BMP of 24 bits", [&] { decoded(changed("picture.bmp", 30, "\4"s)); });
  const std::string of_short = "\x03\0\x01\0\0\0"s, wide = "\0\x01"s + of_short, high = "\x01\x01"s + of_short;
  std::string tiff = kinds_bytes("picture.tif");  // refused when the header is read
  for (const std::string& tag : {wide, high}) tiff.replace(tiff.find(tag) + tag.size(), 2, "\xff\xff"s);
  expect_error("E_IMAGE_SIZE", "65535", [&] { decoded(tiff); });
  expect_error("E_IMAGE", "damaged TIFF", [&] { decoded("II*\0\x08\0\0\0\xff\xff"s); });
  expect_error("E_IMAGE", "damaged GIF", [&] { decoded("GIF89a......"); });
}

TEST_CASE("files in class folders that are left out are counted and named", "[images]") {
  const TempDir f;
  write_in_folder(f / "set/cat/1.tif", kinds_bytes("picture.tif"));
  write_in_folder(f / "set/cat/2.HEIC", "x");
  write_in_folder(f / "set/dog/1.gif", kinds_bytes("picture.gif"));
  write_in_folder(f / "set/dog/2.bmp", kinds_bytes("picture.bmp"));
  write_in_folder(f / "set/dog/3.heic", "x");
  write_in_folder(f / "set/dog/notes.txt", "x");
  write_in_folder(f / "set/loose.bmp", kinds_bytes("picture.bmp"));
  const Table t = class_folders(f / "set");
  CHECK(t.rows() == 3);
  REQUIRE(t.notes().size() == 2);
  CHECK_THAT(t.notes()[0], ContainsSubstring("1 image is left out, in no class folder"));
  CHECK_THAT(t.notes()[1], ContainsSubstring("3 files are left out") && ContainsSubstring("2 .heic, 1 .txt"));
  write_in_folder(f / "more/cat/9.tif", kinds_bytes("picture.tif"));
  const Table both = class_folders((f / "set") + "," + (f / "more"));
  CHECK(both.rows() == 4);
  CHECK(both.text(3, 1) == "cat");
}

TEST_CASE("a folder of train/ and val/ is not one of classes", "[images]") {
  const TempDir f;
  for (const char* name : {"img/train/cat/1.bmp", "img/train/dog/1.bmp", "img/val/cat/1.bmp", "img/val/dog/1.bmp"})
    write_in_folder(f / name, kinds_bytes("picture.bmp"));
  const Error e = error_of([&] { class_folders(f / "img"); });
  CHECK(e.id() == "E_DATA_FOLDER");
  CHECK_THAT(e.hint(), ContainsSubstring("img/train `val` ") && ContainsSubstring("img/val"));
  expect_error("E_DATA_FOLDER", "train, val", [&] { masked_images(f / "img", f / "img"); });
  for (const char* name :
       {"coco/train2017/1.bmp", "coco/val2017/1.bmp", "words/Training/a/1.bmp", "words/test_set/a/1.bmp"})
    write_in_folder(f / name, kinds_bytes("picture.bmp"));
  expect_error("E_DATA_FOLDER", "parts of a data set", [&] { class_folders(f / "coco"); });
  expect_error("E_DATA_FOLDER", "parts of a data set", [&] { class_folders(f / "words"); });
  for (const char* name : {"vehicles/train/1.bmp", "vehicles/bus/1.bmp", "vehicles/test/1.bmp"})
    write_in_folder(f / name, kinds_bytes("picture.bmp"));
  CHECK(class_folders(f / "vehicles").rows() == 3);  // next to the folder `bus`, `train` is a class
}
