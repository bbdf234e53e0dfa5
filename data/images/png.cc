// Decodes and encodes PNG with libpng. libpng's errors longjmp, so the functions that it may leave must not hold
// objects with destructors.
#include <png.h>

#include <csetjmp>
#include <cstring>
#include <new>

#include "data/images/decoder.h"
#include "data/images/exif.h"

namespace amp {

namespace {

struct PngReader {
  explicit PngReader(const EncodedImage& f) : file(f) {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, [](png_structp, png_const_charp) {});
    if (png) info = png_create_info_struct(png);
    if (!info) throw std::bad_alloc();
    png_set_read_fn(png, this, on_read);
  }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }

  static void on_error(png_structp png, png_const_charp what) {
    auto* const self = static_cast<PngReader*>(png_get_error_ptr(png));
    std::strncpy(self->why, what, sizeof self->why - 1);
    png_longjmp(png, 1);
  }
  static void on_read(png_structp png, png_bytep to, size_t size) {
    auto* const self = static_cast<PngReader*>(png_get_io_ptr(png));
    if (self->file.bytes.size() - self->at < size) png_error(png, "the file ends too early");
    std::memcpy(to, self->file.bytes.data() + self->at, size);
    self->at += size;
  }

  bool header();  // false: `why` has the reason
  bool pixels();  // decodes into rows
  int orientation() const;

  const EncodedImage& file;
  size_t at = 0;
  char why[128] = {};
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::vector<png_bytep> rows;
};

bool PngReader::header() {
  if (setjmp(png_jmpbuf(png))) return false;
  png_set_user_limits(png, 0x7fffffff, 0x7fffffff);  // check_size limits the size instead
  png_read_info(png, info);
  return true;
}

bool PngReader::pixels() {
  if (setjmp(png_jmpbuf(png))) return false;
  png_read_image(png, rows.data());
  png_read_end(png, info);
  return true;
}

int PngReader::orientation() const {
  png_uint_32 size = 0;
  png_bytep block = nullptr;
  if (!png_get_eXIf_1(png, info, &size, &block)) return 1;
  return exif_orientation({reinterpret_cast<const char*>(block), size});
}

// Requests colors of 8 bits per channel without alpha, as Pillow does: the lower half of 16 bits is dropped, and
// palettes are expanded.
void ask_for_colors(png_structp png, int type, int depth) {
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (type == PNG_COLOR_TYPE_GRAY && depth < 8) png_set_expand_gray_1_2_4_to_8(png);
  if (depth == 16) png_set_strip_16(png);
  if (type == PNG_COLOR_TYPE_PALETTE || (type & PNG_COLOR_MASK_ALPHA)) png_set_strip_alpha(png);
}

void ask_for_numbers(const EncodedImage& file, png_structp png, int type, int depth) {
  if (type == PNG_COLOR_TYPE_RGB || type == PNG_COLOR_TYPE_RGB_ALPHA)
    file.refuse("a mask in colors", "masks are gray or indexed images whose pixels are numbers of classes", "E_MASK");
  if (depth == 16) file.refuse("a mask of 16 bits a pixel", "write it with 8", "E_MASK");
  png_set_packing(png);
  if (type & PNG_COLOR_MASK_ALPHA) png_set_strip_alpha(png);
}

[[noreturn]] void damaged(const PngReader& r) {
  r.file.refuse(cat("a damaged PNG: ", r.why), "remove the file or fetch it again");
}

Image decode_png(const EncodedImage& file) {
  PngReader r(file);
  if (!r.header()) damaged(r);
  const auto width = static_cast<int64_t>(png_get_image_width(r.png, r.info)),
             height = static_cast<int64_t>(png_get_image_height(r.png, r.info));
  file.check_size(width, height);
  const int type = png_get_color_type(r.png, r.info), depth = png_get_bit_depth(r.png, r.info);
  // Deflate expands a byte to at most 1032 bytes. A header that claims more is wrong, and is refused before memory is
  // allocated.
  if (width * height / 8 > 1032 * static_cast<int64_t>(file.bytes.size()))
    file.refuse(cat("a damaged PNG: its ", file.bytes.size(), " bytes cannot hold ", width, " x ", height, " pixels"),
                "remove the file or fetch it again");
  file.check_growth(width, height, int64_t{depth} * png_get_channels(r.png, r.info));
  if (file.numbers) {
    ask_for_numbers(file, r.png, type, depth);
  } else {
    ask_for_colors(r.png, type, depth);
  }
  png_set_interlace_handling(r.png);
  png_read_update_info(r.png, r.info);
  Image out(width, height, png_get_channels(r.png, r.info));
  check(png_get_rowbytes(r.png, r.info) == static_cast<size_t>(width * out.channels), "PNG: bytes of a row");
  for (int64_t y = 0; y < height; ++y) r.rows.push_back(out.row(y));
  if (!r.pixels()) damaged(r);
  return file.numbers ? out : upright(std::move(out), r.orientation());
}

// Returns the data of the eXIf chunk, which writers may put after the pixels; nullopt if only the file's first bytes
// are known.
std::optional<std::string_view> exif_block(const EncodedImage& file) {
  const auto at = [&](size_t i) { return uint64_t{static_cast<unsigned char>(file.bytes[i])}; };
  for (uint64_t i = 8; i + 12 <= file.bytes.size();) {
    const uint64_t size = at(i) << 24 | at(i + 1) << 16 | at(i + 2) << 8 | at(i + 3);
    const std::string_view type = file.bytes.substr(i + 4, 4);
    if (type == "IEND") return std::string_view();
    if (type == "eXIf" && i + 8 + size <= file.bytes.size()) return file.bytes.substr(i + 8, size);
    i += 12 + size;
  }
  return file.whole ? std::optional(std::string_view()) : std::nullopt;
}

std::optional<ImageSize> png_size(const EncodedImage& file) {
  PngReader r(file);
  if (!r.header()) {
    if (!file.whole) return std::nullopt;
    damaged(r);
  }
  const ImageSize size{png_get_image_height(r.png, r.info), png_get_image_width(r.png, r.info)};
  file.check_size(size.width, size.height);
  const std::optional<std::string_view> block = exif_block(file);
  return block ? std::optional(upright(size, exif_orientation(*block))) : std::nullopt;
}

struct PngWriter {
  PngWriter() {
    png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
    if (png) info = png_create_info_struct(png);
    if (!info) throw std::bad_alloc();
    png_set_write_fn(
        png, &bytes,
        [](png_structp p, png_bytep from, size_t n) {
          static_cast<std::string*>(png_get_io_ptr(p))->append(reinterpret_cast<const char*>(from), n);
        },
        [](png_structp) {});
  }
  PngWriter(const PngWriter&) = delete;
  PngWriter& operator=(const PngWriter&) = delete;
  ~PngWriter() { png_destroy_write_struct(&png, &info); }
  bool write(const Image& image) {
    if (setjmp(png_jmpbuf(png))) return false;
    png_set_IHDR(png, info, static_cast<png_uint_32>(image.width), static_cast<png_uint_32>(image.height), 8,
                 image.channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (int64_t y = 0; y < image.height; ++y) png_write_row(png, image.row(y));
    png_write_end(png, info);
    return true;
  }
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::string bytes;
};

const DecoderRegistration png_row{
    {"PNG",
     {".png"},
     [](std::string_view b) { return b.starts_with("\x89PNG\r\n\x1a\n"); },
     decode_png,
     png_size,
     nullptr,
     [](const EncodedImage& file) { return exif_orientation(exif_block(file).value_or("")); }}};

}  // namespace

std::string encode_png(const Image& image) {
  PngWriter w;
  if (!w.write(image)) bug("libpng refused to write an image");
  return std::move(w.bytes);
}

}  // namespace amp
