// Decodes the first page of a TIFF with libtiff, in strips or tiles, interleaved or planar: gray, palettes, RGB and
// CMYK of up to 16 bits; JPEG inside is decoded to RGB by libtiff. As in Pillow, the upper 8 of 16 bits are kept,
// premultiplied colors are divided by alpha, and alpha is dropped. Other forms (floating point, 32 bits, Lab) are
// refused, and the error names the form.
//
// libtiff reports errors to a handler of this file, and the size of its single allocations is limited.
#include <tiffio.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>

#include "data/images/decoder.h"
#include "data/images/exif.h"

namespace amp {

namespace {

struct TiffReader {
  explicit TiffReader(const EncodedImage& f);
  TiffReader(const TiffReader&) = delete;
  TiffReader& operator=(const TiffReader&) = delete;
  [[noreturn]] void damaged() const {
    file.refuse(cat("a damaged TIFF: ", why[0] ? why : "it cannot be opened"), "remove the file or fetch it again");
  }
  // Returns the value of a tag of 16 or 32 bits; `otherwise` if the tag is absent.
  uint32_t tag(uint32_t which, uint32_t otherwise) const;
  int turned() const { return orientation >= 1 && orientation <= 8 ? static_cast<int>(orientation) : 1; }
  void read_header();
  void require_form() const;
  Image samples();  // channels as stored, 8 bits each
  void read_strips(Image& out);
  void read_tiles(Image& out);
  void put_row(const uint8_t* from, int64_t count, uint8_t* to, int64_t channels) const;

  const EncodedImage& file;
  int64_t at = 0;
  char why[160] = {};
  // A smart pointer closes the file if the constructor throws. libtiff's callbacks read the members above.
  std::unique_ptr<TIFF, void (*)(TIFF*)> tiff{nullptr, TIFFClose};
  int64_t width = 0, height = 0, per_pixel = 1;
  uint32_t bits = 1, photometric = 0, orientation = 1;
  bool planes = false, premultiplied = false;
};

TiffReader& tiff_self(thandle_t handle) { return *static_cast<TiffReader*>(handle); }

int on_tiff_error(TIFF*, void* self, const char*, const char* format, va_list values) {
  auto* const r = static_cast<TiffReader*>(self);
  if (!r->why[0]) std::vsnprintf(r->why, sizeof r->why, format, values);
  return 1;  // handled: nothing is printed
}
int on_tiff_warning(TIFF*, void*, const char*, const char*, va_list) { return 1; }

tmsize_t on_tiff_read(thandle_t handle, void* to, tmsize_t size) {
  TiffReader& r = tiff_self(handle);
  const int64_t all = static_cast<int64_t>(r.file.bytes.size());
  const int64_t n = r.at >= all ? 0 : std::min<int64_t>(size, all - r.at);
  if (n > 0) std::memcpy(to, r.file.bytes.data() + r.at, static_cast<size_t>(n));
  r.at += std::max<int64_t>(n, 0);
  return n;
}
toff_t on_tiff_seek(thandle_t handle, toff_t to, int whence) {
  TiffReader& r = tiff_self(handle);
  const int64_t base = whence == SEEK_CUR ? r.at : whence == SEEK_END ? static_cast<int64_t>(r.file.bytes.size()) : 0;
  const int64_t place = base + static_cast<int64_t>(to);
  if (place < 0) return static_cast<toff_t>(-1);
  r.at = place;
  return static_cast<toff_t>(r.at);
}

TiffReader::TiffReader(const EncodedImage& f) : file(f) {
  const std::unique_ptr<TIFFOpenOptions, void (*)(TIFFOpenOptions*)> options(TIFFOpenOptionsAlloc(),
                                                                             TIFFOpenOptionsFree);
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), tmsize_t{1} << 30);
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), on_tiff_error, this);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), on_tiff_warning, this);
  tiff.reset(TIFFClientOpenExt(
      "image", "rm", this, on_tiff_read, [](thandle_t, void*, tmsize_t) -> tmsize_t { return 0; }, on_tiff_seek,
      [](thandle_t) { return 0; },
      [](thandle_t handle) { return static_cast<toff_t>(tiff_self(handle).file.bytes.size()); },
      [](thandle_t, void**, toff_t*) { return 0; }, [](thandle_t, void*, toff_t) {}, options.get()));
  if (!tiff) damaged();
  read_header();
}

uint32_t TiffReader::tag(uint32_t which, uint32_t otherwise) const {
  const TIFFField* const field = TIFFFindField(tiff.get(), which, TIFF_ANY);
  if (field && TIFFFieldDataType(field) == TIFF_SHORT) {
    uint16_t v = 0;
    return TIFFGetFieldDefaulted(tiff.get(), which, &v) ? v : otherwise;
  }
  uint32_t v = 0;
  return TIFFGetFieldDefaulted(tiff.get(), which, &v) ? v : otherwise;
}

void TiffReader::read_header() {
  width = tag(TIFFTAG_IMAGEWIDTH, 0);
  height = tag(TIFFTAG_IMAGELENGTH, 0);
  file.check_size(width, height);
  bits = tag(TIFFTAG_BITSPERSAMPLE, 1);
  per_pixel = tag(TIFFTAG_SAMPLESPERPIXEL, 1);
  photometric = tag(TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
  orientation = tag(TIFFTAG_ORIENTATION, 1);
  planes = tag(TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG) == PLANARCONFIG_SEPARATE;
  uint16_t extra = 0, *kinds = nullptr;
  if (TIFFGetField(tiff.get(), TIFFTAG_EXTRASAMPLES, &extra, &kinds) && extra > 0)
    premultiplied = kinds[0] == EXTRASAMPLE_ASSOCALPHA;
  if (tag(TIFFTAG_COMPRESSION, 1) == COMPRESSION_JPEG && photometric == PHOTOMETRIC_YCBCR) {
    TIFFSetField(tiff.get(), TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    photometric = PHOTOMETRIC_RGB;
  }
}

// Returns the number of channels without alpha; 0 for forms that are not supported.
int64_t tiff_channels(uint32_t photometric) {
  switch (photometric) {
    case PHOTOMETRIC_MINISWHITE:
    case PHOTOMETRIC_MINISBLACK:
    case PHOTOMETRIC_PALETTE:
      return 1;
    case PHOTOMETRIC_RGB:
      return 3;
    case PHOTOMETRIC_SEPARATED:
      return 4;
    default:
      return 0;
  }
}

void TiffReader::require_form() const {
  const auto refuse = [&](const std::string& what) {
    file.refuse(cat("a TIFF ", what, ", which is not read"), "save it with 8 or 16 bits per channel, gray or RGB",
                "E_IMAGE_KIND");
  };
  const int64_t channels = tiff_channels(photometric);
  if (const uint32_t format = tag(TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT);
      format != SAMPLEFORMAT_UINT && format != SAMPLEFORMAT_VOID)
    refuse(format == SAMPLEFORMAT_IEEEFP ? "of floating point numbers" : "of signed or complex numbers");
  const bool one = bits == 1 || bits == 2 || bits == 4;
  if (!(bits == 8 || bits == 16 || (one && channels == 1 && per_pixel == 1)))
    refuse(cat("of ", bits, " bits a channel"));
  if (channels == 0) refuse(cat("in colors of kind ", photometric));
  if (per_pixel < channels || per_pixel > 16 || per_pixel * width * height > 4 * most_pixels())
    refuse(cat("of ", per_pixel, " channels"));
  if (photometric == PHOTOMETRIC_PALETTE && bits > 8) refuse("with a palette of 16 bits");
  const uint32_t compression = tag(TIFFTAG_COMPRESSION, 1);
  if (!TIFFIsCODECConfigured(static_cast<uint16_t>(compression))) refuse(cat("with compression ", compression));
  // A compressed byte expands to at most 16384 bytes. Exceptions are fax pages and runs of one color with 1 bit per
  // pixel.
  const int64_t bytes = width * height * per_pixel * bits / 8;
  if (bytes / 16384 > static_cast<int64_t>(file.bytes.size()))
    file.refuse(cat("a damaged TIFF: its ", file.bytes.size(), " bytes cannot hold ", width, " x ", height, " pixels"),
                "remove the file or fetch it again");
  if (compression != COMPRESSION_NONE) file.check_growth(width, height, per_pixel * int64_t{bits});
}

// Converts `count` samples (values of a channel) to 8 bits and writes them to every step-th byte of `to`. Samples of 16
// bits lose their lower half.
void TiffReader::put_row(const uint8_t* from, int64_t count, uint8_t* to, int64_t step) const {
  for (int64_t i = 0; i < count; ++i) {
    uint8_t v = 0;
    if (bits == 8) {
      v = from[i];
    } else if (bits == 16) {
      uint16_t wide = 0;
      std::memcpy(&wide, from + 2 * i, 2);  // already in the machine's byte order
      v = static_cast<uint8_t>(wide >> 8);
    } else {
      const auto bit = static_cast<uint32_t>(i) * bits;
      v = static_cast<uint8_t>(from[bit / 8] >> (8 - bits - bit % 8) & ((1u << bits) - 1));
    }
    to[i * step] = v;
  }
}

void TiffReader::read_strips(Image& out) {
  std::vector<uint8_t> line(static_cast<size_t>(std::max<tmsize_t>(TIFFScanlineSize(tiff.get()), 1)));
  const int64_t samples = planes ? width : width * per_pixel;
  if (static_cast<int64_t>(line.size()) < (samples * bits + 7) / 8) damaged();
  for (int64_t s = 0; s < (planes ? per_pixel : 1); ++s) {
    for (int64_t y = 0; y < height; ++y) {
      if (TIFFReadScanline(tiff.get(), line.data(), static_cast<uint32_t>(y), static_cast<uint16_t>(s)) < 0) damaged();
      put_row(line.data(), samples, out.row(y) + s, planes ? per_pixel : 1);
    }
  }
}

void TiffReader::read_tiles(Image& out) {
  const int64_t w = tag(TIFFTAG_TILEWIDTH, 0), h = tag(TIFFTAG_TILELENGTH, 0);
  file.check_size(w, h);
  const int64_t row = TIFFTileRowSize(tiff.get()), size = TIFFTileSize(tiff.get()), samples = planes ? 1 : per_pixel;
  // A tile may be larger than the picture, which is then padded; writers use sides of up to 1,024.
  if (size < 1 || row < (w * samples * bits + 7) / 8 || size < row * h ||
      w * h > std::max<int64_t>(4 * width * height, 1 << 24))
    file.refuse("a damaged TIFF: tiles that do not fit the picture", "remove the file or fetch it again");
  std::vector<uint8_t> tile(static_cast<size_t>(size));
  for (int64_t s = 0; s < (planes ? per_pixel : 1); ++s) {
    for (int64_t y = 0; y < height; y += h) {
      for (int64_t x = 0; x < width; x += w) {
        if (TIFFReadTile(tiff.get(), tile.data(), static_cast<uint32_t>(x), static_cast<uint32_t>(y), 0,
                         static_cast<uint16_t>(s)) < 0)
          damaged();
        const int64_t columns = std::min(w, width - x);
        for (int64_t r = 0; r < std::min(h, height - y); ++r)
          put_row(tile.data() + r * row, columns * samples, out.row(y + r) + x * per_pixel + s, planes ? per_pixel : 1);
      }
    }
  }
}

Image TiffReader::samples() {
  Image out(width, height, per_pixel);
  if (TIFFIsTiled(tiff.get())) {
    read_tiles(out);
  } else {
    read_strips(out);
  }
  return out;
}

uint8_t tiff_ink(uint8_t ink, uint8_t black) {  // Pillow's cmyk2rgb
  const int paper = 255 - black, t = ink * paper + 128;
  return static_cast<uint8_t>(std::clamp(paper - ((t + (t >> 8)) >> 8), 0, 255));
}

// Scales gray samples to 8 bits and inverts them if 0 is white.
Image tiff_grey(const TiffReader& r, Image in) {
  const int64_t most = (int64_t{1} << std::min(r.bits, 8u)) - 1;
  Image out(r.width, r.height, 1);
  for (size_t i = 0; i < out.data.size(); ++i) {
    const int64_t v = in.data[i * static_cast<size_t>(r.per_pixel)] * 255 / most;
    out.data[i] = static_cast<uint8_t>(r.photometric == PHOTOMETRIC_MINISWHITE ? 255 - v : v);
  }
  return out;
}

Image tiff_palette(const TiffReader& r, const Image& in) {
  uint16_t* maps[3] = {};
  if (!TIFFGetField(r.tiff.get(), TIFFTAG_COLORMAP, &maps[0], &maps[1], &maps[2])) r.damaged();
  Image out(r.width, r.height, 3);
  for (size_t i = 0; i < out.data.size() / 3; ++i) {
    for (size_t c = 0; c < 3; ++c)
      out.data[3 * i + c] = static_cast<uint8_t>(maps[c][in.data[i * static_cast<size_t>(r.per_pixel)]] >> 8);
  }
  return out;
}

Image tiff_colors(const TiffReader& r, const Image& in) {
  Image out(r.width, r.height, 3);
  for (size_t i = 0; i < out.data.size() / 3; ++i) {
    const uint8_t* const p = in.data.data() + i * static_cast<size_t>(r.per_pixel);
    uint8_t* const to = out.data.data() + 3 * i;
    for (size_t c = 0; c < 3; ++c) {
      const bool divided = r.premultiplied && r.per_pixel > 3;
      to[c] = r.photometric == PHOTOMETRIC_SEPARATED ? tiff_ink(p[c], p[3])
              : !divided                             ? p[c]
              : p[3] == 0                            ? uint8_t{0}
                                                     : static_cast<uint8_t>(std::min(p[c] * 255 / p[3], 255));
    }
  }
  return out;
}

Image decode_tiff(const EncodedImage& file) {
  TiffReader r(file);
  r.require_form();
  if (file.numbers && (tiff_channels(r.photometric) != 1 || r.bits > 8))
    file.refuse(r.bits > 8 ? "a mask of 16 bits a pixel" : "a mask in colors",
                "masks are gray or indexed images of 8 bits, whose pixels are numbers of classes", "E_MASK");
  Image in = r.samples();
  if (file.numbers && r.per_pixel == 1) return in;
  const bool grey = tiff_channels(r.photometric) == 1;
  return upright(!grey                                  ? tiff_colors(r, in)
                 : r.photometric == PHOTOMETRIC_PALETTE ? tiff_palette(r, in)
                                                        : tiff_grey(r, std::move(in)),
                 r.turned());
}

std::optional<ImageSize> tiff_size(const EncodedImage& file) {
  if (!file.whole) return std::nullopt;  // the directory may be at the end
  const TiffReader r(file);
  return upright(ImageSize{r.height, r.width}, r.turned());
}

int tiff_turned(const EncodedImage& file) {
  const TiffReader r(file);
  return r.turned();
}

int64_t tiff_pages(const EncodedImage& file) {
  const TiffReader r(file);
  return static_cast<int64_t>(TIFFNumberOfDirectories(r.tiff.get()));
}

const DecoderRegistration tiff_row{{"TIFF",
                                    {".tif", ".tiff"},
                                    [](std::string_view b) {
                                      using namespace std::string_view_literals;
                                      return b.starts_with("II*\0"sv) || b.starts_with("MM\0*"sv) ||
                                             b.starts_with("II+\0"sv) || b.starts_with("MM\0+"sv);
                                    },
                                    decode_tiff,
                                    tiff_size,
                                    tiff_pages,
                                    tiff_turned}};

}  // namespace

}  // namespace amp
