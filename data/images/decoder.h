// ImageDecoder: decodes the bytes of an image file. Each kind of image file has one source file in this folder, which
// registers its decoder. The first bytes of a file determine its kind, not its name. Errors have exit code 5 and ids
// E_IMAGE..., and name the file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/images/image.h"

namespace amp {

// Largest numbers of pixels of an image, unless Limits::image_pixels sets one. The header is checked before anything is
// allocated. kMaxPixels is Pillow's limit. An image that compresses more than kMostImageGrowth times may have only
// kMaxSparsePixels, a little more than a page of A4 at 600 dpi. Otherwise a file of half a megabyte could hold
// kMaxPixels equal pixels, which take seconds to decode in every epoch.
constexpr int64_t kMaxPixels = 178'956'970, kMaxSparsePixels = 35'000'000, kMostImageGrowth = 200;
int64_t most_pixels();  // kMaxPixels, or Limits::image_pixels

struct EncodedImage {
  std::string_view bytes;
  std::string name;      // the file's name, for errors
  bool numbers = false;  // true: a mask, decoded as stored palette indices or gray values in one channel
  bool whole = true;     // false: `bytes` are only the first bytes of the file, which suffice to find the image's size

  // Throws `id` with Exit::data and the text "'cat.png': why".
  [[noreturn]] void refuse(const std::string& why, const std::string& hint = {},
                           const std::string& id = "E_IMAGE") const;
  void check_size(int64_t width, int64_t height) const;  // throws E_IMAGE_SIZE for 0 or more than most_pixels()
  // Throws E_IMAGE_SIZE for a compressed image of more than kMaxSparsePixels that the file holds in few bytes. bits:
  // number of bits of an unpacked pixel.
  void check_growth(int64_t width, int64_t height, int64_t bits) const;
};

struct ImageDecoder {
  std::string name;                     // such as "PNG"
  std::vector<std::string> extensions;  // endings of file names that folders are searched for: ".png"
  bool (*knows)(std::string_view bytes);
  Image (*decode)(const EncodedImage& file);  // applies the orientation of the file; drops alpha
  // Returns the size of decode's result without decoding. nullopt: the first bytes are not enough.
  std::optional<ImageSize> (*size)(const EncodedImage& file);
  // Returns the number of pictures in the file; decode reads the first. Null: there is only one.
  int64_t (*frames)(const EncodedImage& file) = nullptr;
  // Returns the EXIF orientation (data/images/exif.h), which decode applies. Null: it is always 1, upright.
  int (*orientation)(const EncodedImage& file) = nullptr;
};

// Used at namespace scope of the decoder's file: `const DecoderRegistration registered{{...}};`
struct DecoderRegistration {
  DecoderRegistration(ImageDecoder decoder);
};

const std::vector<const ImageDecoder*>& image_decoders();  // all decoders, sorted by name
bool has_image_extension(const std::string& path);         // ignores case
std::string image_kinds();                                 // a text for messages: "JPEG, PNG, ..."

std::string encode_png(const Image& image);  // writes 8 bits per channel

// These functions throw E_IMAGE_KIND if no decoder recognizes the bytes.
Image decode_image(const EncodedImage& file);
int64_t image_frames(const EncodedImage& file);                 // number of pages or of animation frames
int image_orientation(const EncodedImage& file);                // EXIF orientation, 1 to 8; 1: as stored
std::optional<ImageSize> image_size(const EncodedImage& file);  // nullopt: see ImageDecoder::size

}  // namespace amp
