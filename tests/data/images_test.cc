// Image decoders against Pillow (tests/data/data/images/make_image_golden.py), and files that must be refused.
#include <catch2/catch_all.hpp>
#include <fstream>
#include <map>

#include "base/file.h"
#include "base/limits.h"
#include "base/npz.h"
#include "data/images/decoder.h"
#include "data/images/exif.h"
#include "tests/errors.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string folder() { return test_data("data/images/"); }

std::string bytes_of(const std::string& name) {
  const FileBytes f = read_file(folder() + name);
  return std::string(f.text());
}

Image decoded(const std::string& bytes, bool numbers = false) { return decode_image({bytes, "x.png", numbers}); }

int worst_difference(const Image& image, const HostTensor& want) {
  const Dims dims = image.channels == 1 ? Dims{image.height, image.width} : Dims{image.height, image.width, 3};
  REQUIRE(want.dims() == dims);
  const std::vector<int64_t> w = want.to_ints();
  int worst = 0;
  for (size_t i = 0; i < w.size(); ++i) worst = std::max(worst, std::abs(static_cast<int>(w[i]) - image.data[i]));
  return worst;
}

std::string big_endian(uint32_t v) {
  return {static_cast<char>(v >> 24), static_cast<char>(v >> 16), static_cast<char>(v >> 8), static_cast<char>(v)};
}

}  // namespace

TEST_CASE("images are decoded as Pillow does", "[images]") {
  const std::vector<NamedTensor> golden = read_npz(folder() + "decoded.npz");
  size_t seen = 0;
  for (const auto& [name, want] : golden) {
    if (name.find('.') == std::string::npos) continue;
    INFO(name);
    const bool mask = name.starts_with("mask");
    const Image image = decoded(bytes_of(name), mask);
    // Pillow contains a newer libjpeg-turbo, whose last bit may differ. Other formats are exact.
    const bool lossy = name.ends_with(".jpg") || name == "lossy.webp";
    if (image.channels == 3 && want.rank() == 2) {  // WebP has no grayscale
      CHECK(name.ends_with(".webp"));
      continue;
    }
    CHECK(worst_difference(image, want) <= (lossy ? 1 : 0));
    ++seen;
  }
  CHECK(seen == 34);
}

TEST_CASE("grey is Pillow's luma", "[images]") {
  const Image grey = to_grey(decoded(bytes_of("picture.png")));
  CHECK(worst_difference(grey, *find_tensor(read_npz(folder() + "decoded.npz"), "as_grey")) == 0);
  const Image rgb = to_rgb(grey);
  CHECK(rgb.channels == 3);
  CHECK(to_grey(rgb).data == grey.data);
}

TEST_CASE("damaged and foreign image files are refused with their name", "[images]") {
  const std::string png = bytes_of("picture.png"), jpg = bytes_of("picture.jpg"), webp = bytes_of("lossless.webp");
  const auto refused = [](const std::string& bytes, const std::string& id, const std::string& part,
                          bool numbers = false) {
    INFO(part);
    const Error e = error_of([&] { decoded(bytes, numbers); });
    CHECK(e.exit() == Exit::data);
    CHECK(e.id() == id);
    CHECK_THAT(e.fact(), ContainsSubstring("'x.png'"));
    CHECK_THAT(e.fact(), ContainsSubstring(part));
  };
  refused("", "E_IMAGE", "empty");
  refused("hello, world", "E_IMAGE_KIND", "no image of a known kind");
  refused("8BPS....", "E_IMAGE_KIND", "a Photoshop file");
  refused(std::string("\0\0\0\x20", 4) + "ftypheic0000", "E_IMAGE_KIND", "HEIF");
  for (const double part : {0.1, 0.5, 0.9}) {
    const auto cut = [&](const std::string& s) {
      return s.substr(0, static_cast<size_t>(part * static_cast<double>(s.size())));
    };
    refused(cut(png), "E_IMAGE", "damaged PNG");
    refused(cut(jpg), "E_IMAGE", "damaged JPEG");
    refused(cut(webp), "E_IMAGE", "damaged WebP");
  }
  std::string wrong = png;
  wrong[wrong.size() / 2] = static_cast<char>(wrong[wrong.size() / 2] ^ 1);
  refused(wrong, "E_IMAGE", "damaged PNG");

  std::string wide = png;  // a header of 65,535 x 65,535 pixels with a correct checksum
  wide.replace(16, 8, big_endian(65535) + big_endian(65535));
  refused(wide, "E_IMAGE", "damaged PNG");  // the checksum is wrong
  std::string frame = jpg;
  const size_t sof = frame.find(std::string("\xff\xc0", 2));
  REQUIRE(sof != std::string::npos);
  frame.replace(sof + 5, 4, "\xff\xdc\xff\xdc");
  refused(frame, "E_IMAGE_SIZE", "65500 x 65500");
  refused("P6 65535 65535 255\n", "E_IMAGE_SIZE", "65535 x 65535");
  refused("P6 13000 13000 255\nabc", "E_IMAGE", "cut short");
  refused("P6 2 2 65535\nabcabcabcabc", "E_IMAGE", "65535");
  refused("P2 2 2 7\n1 2 3 8", "E_IMAGE", "8");
  refused("P2 2 2 7\n1 2 3", "E_IMAGE", "missing");
  refused("P5 0 2 255\n", "E_IMAGE_SIZE", "0 x 2");

  refused(png, "E_MASK", "colors", true);
  refused(jpg, "E_MASK", "JPEG", true);
  refused(bytes_of("picture.ppm"), "E_MASK", "colors", true);
}

TEST_CASE("a PNG header that asks for too much is refused before anything is allocated", "[images]") {
  const auto with_size = [](uint32_t side) {
    std::string ihdr = std::string("IHDR") + big_endian(side) + big_endian(side) + std::string("\x08\x02\0\0\0", 5);
    uint32_t crc = ~0u;
    for (const char c : ihdr) {
      crc ^= static_cast<unsigned char>(c);
      for (int k = 0; k < 8; ++k) crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
    }
    return std::string("\x89PNG\r\n\x1a\n") + big_endian(13) + ihdr + big_endian(~crc) + big_endian(4) + "IDAT";
  };
  const Error e = error_of([&] { decoded(with_size(65535)); });
  CHECK(e.id() == "E_IMAGE_SIZE");
  CHECK_THAT(e.fact(), ContainsSubstring("65535 x 65535"));
  const Error small = error_of([&] { decoded(with_size(12000)); });
  CHECK(small.id() == "E_IMAGE");
  CHECK_THAT(small.fact(), ContainsSubstring("cannot hold"));
}

TEST_CASE("a large image of few bytes is refused unless a limit is set", "[images][bomb]") {
  const auto plain = [](int64_t width, int64_t height) { return encode_png(Image(width, height, 1)); };
  const std::string bomb = plain(6000, 6000);
  const Error e = error_of([&] { decoded(bomb); });
  CHECK(e.id() == "E_IMAGE_SIZE");
  CHECK_THAT(e.fact(), ContainsSubstring("decompression bomb"));
  CHECK_THAT(e.hint(), ContainsSubstring("`max_image_pixels` 36000000"));
  CHECK(decoded(plain(4960, 7016)).height == 7016);  // a blank page of A4 at 600 dpi
  const auto with_limit = [&](int64_t pixels) {
    Limits l;
    l.image_pixels = pixels;
    set_limits(l);
    std::string id;
    try {
      decoded(bomb);
    } catch (const Error& error) {
      id = error.id();
    }
    set_limits({});
    return id;
  };
  CHECK(with_limit(36'000'000).empty());
  CHECK(with_limit(35'999'999) == "E_IMAGE_SIZE");
}

TEST_CASE("orientations that make no sense are upright", "[images]") {
  using namespace std::string_literals;
  const auto block = [](char value, char type = 3) {
    return "MM\0*\0\0\0\x08\0\x01\x01\x12\0"s + type + "\0\0\0\x01\0"s + value + "\0\0"s;
  };
  CHECK(exif_orientation(block(6)) == 6);
  CHECK(exif_orientation("Exif\0\0"s + block(8)) == 8);
  CHECK(exif_orientation(block(9)) == 1);
  CHECK(exif_orientation(block(0)) == 1);
  CHECK(exif_orientation(block(6, 4)) == 1);
  for (size_t n = 0; n < block(6).size(); ++n) CHECK(exif_orientation(block(6).substr(0, n)) <= 6);
  CHECK(exif_orientation("") == 1);
}

TEST_CASE("files are found by their extensions", "[images]") {
  for (const char* name : {"a.png", "a.JPG", "b.jpeg", "c.webp", "d.PPM", "e.gif", "f.BMP", "g.tif", "h.TIFF"})
    CHECK(has_image_extension(name));
  for (const char* name : {"a.txt", "png", "a.png.txt", "a.heic"}) CHECK_FALSE(has_image_extension(name));
  CHECK(image_kinds() == "BMP, GIF, JPEG, PNG, PNM, TIFF, WebP");
}
