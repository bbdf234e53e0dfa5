// What turns the bytes of an image file into pixels. Each kind is one file in this folder with one row; files are known
// by their first bytes, whatever they are called. Errors: exit 5, E_IMAGE..., naming the file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/images/image.h"

namespace amp {

// Pixels of an image at most: Pillow's own limit. Told by the header, before anything is allocated.
constexpr int64_t kMaxPixels = 178956970;

struct EncodedImage {
  std::string_view bytes;
  std::string name;      // of the file, for errors
  bool numbers = false;  // a mask: palette indices and grey values as they are stored, one channel
  bool whole = true;     // false: a file's first bytes, to find its size

  // Exit::data: "'cat.png': why".
  [[noreturn]] void refuse(const std::string& why, const std::string& hint = {},
                           const std::string& id = "E_IMAGE") const;
  void check_size(int64_t width, int64_t height) const;  // E_IMAGE_SIZE for none, or more than kMaxPixels
};

struct ImageDecoder {
  std::string name;                     // "PNG"
  std::vector<std::string> extensions;  // by which files are found in folders: ".png"
  bool (*knows)(std::string_view bytes);
  Image (*decode)(const EncodedImage& file);  // upright where the file says how it lies; without transparency
  // As decode would make it, by what stands before and behind the pixels. nullopt: what is not whole does not tell.
  std::optional<ImageSize> (*size)(const EncodedImage& file);
  // Pictures in the file, of which decode takes the first; null: one.
  int64_t (*frames)(const EncodedImage& file) = nullptr;
  // How the camera held it, as data/images/exif.h has it, by which decode turns the picture; null: 1, upright.
  int (*orientation)(const EncodedImage& file) = nullptr;
};

// At namespace scope of the decoder's file: `const DecoderRegistration registered{{...}};`
struct DecoderRegistration {
  DecoderRegistration(ImageDecoder decoder);
};

const std::vector<const ImageDecoder*>& image_decoders();  // by name
bool has_image_extension(const std::string& path);         // in any case of letters
std::string image_kinds();                                 // "JPEG, PNG, ...", for people

std::string encode_png(const Image& image);  // 8 bits a channel

// E_IMAGE_KIND for bytes that no decoder knows.
Image decode_image(const EncodedImage& file);
int64_t image_frames(const EncodedImage& file);                 // pictures in it: pages, frames of an animation
int image_orientation(const EncodedImage& file);                // 1 to 8; 1: as it is stored
std::optional<ImageSize> image_size(const EncodedImage& file);  // nullopt as of ImageDecoder

}  // namespace amp
