// Implements decoder.h: the registry of decoders, the choice by a file's first bytes, and conversions of channels.
#include "data/images/decoder.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <utility>

#include "base/limits.h"
#include "base/text.h"
#include "data/rows_by_name.h"

namespace amp {

namespace {

std::vector<ImageDecoder>& decoders() {
  static std::vector<ImageDecoder> all;
  return all;
}

// Returns the name of a common kind of file that is not supported, for a helpful error; null for other files.
const char* foreign_kind(std::string_view bytes) {
  static constexpr std::array<std::pair<std::string_view, const char*>, 5> kinds{{{"<svg", "an SVG drawing"},
                                                                                  {"%PDF", "a PDF"},
                                                                                  {"8BPS", "a Photoshop file"},
                                                                                  {"gimp xcf", "a GIMP file"},
                                                                                  {"<!DOCTYPE", "a web page"}}};
  if (bytes.size() > 12 && bytes.substr(4, 4) == "ftyp") return "a HEIF, AVIF or video file";
  for (const auto& [magic, name] : kinds) {
    if (bytes.starts_with(magic)) return name;
  }
  return nullptr;
}

}  // namespace

DecoderRegistration::DecoderRegistration(ImageDecoder decoder) { decoders().push_back(std::move(decoder)); }

const std::vector<const ImageDecoder*>& image_decoders() {
  static const std::vector<const ImageDecoder*> sorted = rows_by_name(decoders());
  return sorted;
}

bool has_image_extension(const std::string& path) {
  std::string extension = std::filesystem::path(path).extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return std::any_of(image_decoders().begin(), image_decoders().end(), [&](const ImageDecoder* d) {
    return std::find(d->extensions.begin(), d->extensions.end(), extension) != d->extensions.end();
  });
}

std::string image_kinds() {
  std::vector<std::string> names;
  for (const ImageDecoder* d : image_decoders()) names.push_back(d->name);
  return join(names, ", ");
}

void EncodedImage::refuse(const std::string& why, const std::string& hint, const std::string& id) const {
  fail(Exit::data, id, cat("'", printable(name), "': ", why), hint);
}

void EncodedImage::check_size(int64_t width, int64_t height) const {
  if (width < 1 || height < 1) refuse(cat("an image of ", width, " x ", height, " pixels"), {}, "E_IMAGE_SIZE");
  if (width > most_pixels() / height) {
    refuse(cat(width, " x ", height, " pixels are more than the ", with_thousands(most_pixels()), " that are read"),
           "scale the picture down, raise `max_image_pixels`, or remove the file if its header is wrong",
           "E_IMAGE_SIZE");
  }
}

void EncodedImage::check_growth(int64_t width, int64_t height, int64_t bits) const {
  const auto size = static_cast<int64_t>(bytes.size());
  if (limits().image_pixels > 0 || width * height <= kMaxSparsePixels) return;
  if (width * height / 8 * bits <= kMostImageGrowth * size) return;
  refuse(cat(width, " x ", height, " pixels in ", with_thousands(size), " bytes: an image of more than ",
             with_thousands(kMaxSparsePixels), " pixels that compresses more than ", kMostImageGrowth,
             " times is refused as a decompression bomb"),
         cat("scale the picture down; `max_image_pixels` ", width * height, " reads it as it is"), "E_IMAGE_SIZE");
}

int64_t most_pixels() { return limits().image_pixels > 0 ? limits().image_pixels : kMaxPixels; }

static const ImageDecoder& decoder_of(const EncodedImage& file) {
  if (file.bytes.empty()) file.refuse("the file is empty", "remove it or fetch it again");
  for (const ImageDecoder* d : image_decoders()) {
    if (d->knows(file.bytes)) return *d;
  }
  const char* const kind = foreign_kind(file.bytes);
  file.refuse(kind ? cat("is ", kind, ", which is not read") : std::string("is no image of a known kind"),
              cat("convert it to one of: ", image_kinds()), "E_IMAGE_KIND");
}

Image decode_image(const EncodedImage& file) { return decoder_of(file).decode(file); }
int64_t image_frames(const EncodedImage& file) {
  const ImageDecoder& d = decoder_of(file);
  return d.frames ? d.frames(file) : 1;
}
int image_orientation(const EncodedImage& file) {
  const ImageDecoder& d = decoder_of(file);
  return d.orientation ? d.orientation(file) : 1;
}
std::optional<ImageSize> image_size(const EncodedImage& file) { return decoder_of(file).size(file); }

Image to_rgb(Image image) {
  if (image.channels == 3) return image;
  Image out(image.width, image.height, 3);
  for (size_t i = 0; i < image.data.size(); ++i)
    out.data[3 * i] = out.data[3 * i + 1] = out.data[3 * i + 2] = image.data[i];
  return out;
}

Image to_grey(Image image) {
  if (image.channels == 1) return image;
  Image out(image.width, image.height, 1);
  for (size_t i = 0; i < out.data.size(); ++i) {
    const uint8_t* const p = image.data.data() + 3 * i;
    out.data[i] = static_cast<uint8_t>((p[0] * 19595u + p[1] * 38470u + p[2] * 7471u + 0x8000u) >> 16);
  }
  return out;
}

}  // namespace amp
