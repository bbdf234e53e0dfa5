// Decodes Windows and OS/2 bitmaps from their documentation: palettes of 1, 4 and 8 bits, plain or run-length encoded;
// 16, 24 and 32 bits. As in Pillow, only the usual masks of 16 and 32 bits are read, and alpha is dropped.
#include <algorithm>

#include "data/images/decoder.h"

namespace amp {

namespace {

struct BmpHeader {
  int64_t width = 0, height = 0, pixels = 0, palette = 0, palette_entry = 4, colors = 0;
  int bits = 0;
  uint32_t compression = 0, masks[3] = {};
  bool from_top = false;
};

constexpr uint32_t kBmpPlain = 0, kBmpRle8 = 1, kBmpRle4 = 2, kBmpMasks = 3;

class BmpReader {
 public:
  explicit BmpReader(const EncodedImage& file) : file_(file) {}

  // Returns nullopt if only the first bytes of the file are known and these do not contain the whole header.
  std::optional<BmpHeader> header() const;
  Image pixels(const BmpHeader& h) const;

 private:
  uint32_t number(size_t at, size_t bytes) const {
    uint32_t v = 0;
    for (size_t i = 0; i < bytes; ++i) v |= uint32_t{static_cast<unsigned char>(file_.bytes[at + i])} << (8 * i);
    return v;
  }
  uint8_t byte(int64_t at) const { return static_cast<uint8_t>(file_.bytes[static_cast<size_t>(at)]); }
  int64_t size() const { return static_cast<int64_t>(file_.bytes.size()); }
  [[noreturn]] void damaged(const std::string& why) const {
    file_.refuse(cat("a damaged BMP: ", why), "remove the file or fetch it again");
  }
  void read_masks(BmpHeader& h, size_t info) const;
  Image indices(const BmpHeader& h) const;
  void unpack_runs(const BmpHeader& h, Image& out) const;
  Image colors(const BmpHeader& h) const;

  const EncodedImage& file_;
};

std::optional<BmpHeader> BmpReader::header() const {
  constexpr size_t kInfo = 14;  // offset of the second header (the info header), which begins with its own size
  if (size() < 54) {
    if (!file_.whole) return std::nullopt;
    if (size() < 26) damaged("it ends in its header");
  }
  BmpHeader h;
  h.pixels = number(10, 4);
  const size_t info = number(kInfo, 4);
  if (info == 12) {  // OS/2 1.x
    h.width = number(18, 2);
    h.height = number(20, 2);
    h.bits = static_cast<int>(number(24, 2));
    h.palette_entry = 3;
  } else if (info >= 40 && info <= 124 && size() >= 54) {
    h.width = static_cast<int32_t>(number(18, 4));
    h.height = static_cast<int32_t>(number(22, 4));
    h.bits = static_cast<int>(number(28, 2));
    h.compression = number(30, 4);
    h.colors = number(46, 4);
    h.from_top = h.height < 0;
    h.height = h.from_top ? -h.height : h.height;
  } else {
    damaged(cat("a header of ", info, " bytes"));
  }
  file_.check_size(h.width, h.height);
  h.palette = static_cast<int64_t>(kInfo + info);
  if (h.bits <= 8 && (h.colors <= 0 || h.colors > 256)) h.colors = int64_t{1} << std::max(h.bits, 1);
  read_masks(h, info);
  return h;
}

// Reads the channel masks of 16 and 32 bits; only common forms are accepted.
void BmpReader::read_masks(BmpHeader& h, size_t info) const {
  const bool known = h.bits == 1 || h.bits == 4 || h.bits == 8 || h.bits == 16 || h.bits == 24 || h.bits == 32;
  const bool runs = (h.compression == kBmpRle8 && h.bits == 8) || (h.compression == kBmpRle4 && h.bits == 4);
  const bool masks = h.compression == kBmpMasks && (h.bits == 16 || h.bits == 32);
  if (!known || (h.compression != kBmpPlain && !runs && !masks))
    file_.refuse(cat("a BMP of ", h.bits, " bits a pixel with compression ", h.compression, ", which is not read"),
                 "save it as PNG", "E_IMAGE_KIND");
  const uint32_t usual[2][3] = {{0x7c00, 0x3e0, 0x1f}, {0xff0000, 0xff00, 0xff}};
  for (size_t c = 0; c < 3; ++c) h.masks[c] = usual[h.bits == 32][c];
  if (!masks || size() < 66) return;
  // The masks follow a header of 40 bytes, and are inside a longer header.
  for (size_t c = 0; c < 3; ++c) h.masks[c] = number(54 + 4 * c, 4);
  if (info == 40) h.palette += 12;
}

// Returns the bytes of a row, which are padded to a multiple of four.
int64_t bmp_row_bytes(const BmpHeader& h) { return (h.width * h.bits + 31) / 32 * 4; }

Image BmpReader::indices(const BmpHeader& h) const {
  if (h.compression == kBmpPlain && h.pixels + bmp_row_bytes(h) * h.height > size())
    damaged(cat("its ", size(), " bytes cannot hold ", h.width, " x ", h.height, " pixels"));
  // Two bytes encode at most 255 pixels, or a jump over pixels that keep color 0. The limit is high enough to allow
  // jumps.
  if (h.compression != kBmpPlain && h.width * h.height > (int64_t{1} << 16) * size())
    damaged(cat("its ", size(), " bytes cannot hold ", h.width, " x ", h.height, " pixels"));
  if (h.compression != kBmpPlain) file_.check_growth(h.width, h.height, h.bits);
  Image out(h.width, h.height, 1);
  if (h.compression != kBmpPlain) {
    unpack_runs(h, out);
    return out;
  }
  for (int64_t y = 0; y < h.height; ++y) {
    const int64_t from = h.pixels + bmp_row_bytes(h) * (h.from_top ? y : h.height - 1 - y);
    uint8_t* const to = out.row(y);
    for (int64_t x = 0; x < h.width; ++x) {
      const int64_t bit = x * h.bits;
      const int shift = 8 - h.bits - static_cast<int>(bit % 8);
      to[x] = static_cast<uint8_t>(byte(from + bit / 8) >> shift & ((1 << h.bits) - 1));
    }
  }
  return out;
}

void BmpReader::unpack_runs(const BmpHeader& h, Image& out) const {
  int64_t x = 0, y = 0;
  const auto put = [&](int v) {
    if (x < h.width && y < h.height) out.row(h.from_top ? y : h.height - 1 - y)[x] = static_cast<uint8_t>(v);
    ++x;
  };
  const bool fours = h.compression == kBmpRle4;
  const auto pixel = [&](int b, int64_t i) { return !fours ? b : i % 2 ? b & 15 : b >> 4; };
  for (int64_t at = h.pixels; y < h.height;) {
    if (at + 2 > size()) damaged("it ends in its pixels");
    const int64_t count = byte(at);
    const uint8_t value = byte(at + 1);
    at += 2;
    if (count > 0) {
      for (int64_t i = 0; i < count; ++i) put(pixel(value, i));
    } else if (value == 0) {
      x = 0;
      ++y;
    } else if (value == 1) {
      return;
    } else if (value == 2) {
      if (at + 2 > size()) damaged("it ends in its pixels");
      x += byte(at);
      y += byte(at + 1);
      at += 2;
    } else {
      const int64_t bytes = fours ? (value + 1) / 2 : value;
      if (at + bytes > size()) damaged("it ends in its pixels");
      for (int64_t i = 0; i < value; ++i) put(pixel(byte(at + (fours ? i / 2 : i)), i));
      at += (bytes + 1) / 2 * 2;
    }
  }
}

Image BmpReader::colors(const BmpHeader& h) const {
  if (h.pixels + bmp_row_bytes(h) * h.height > size())
    damaged(cat("its ", size(), " bytes cannot hold ", h.width, " x ", h.height, " pixels"));
  int shift[3] = {}, most[3] = {};
  for (size_t c = 0; c < 3 && h.bits != 24; ++c) {
    uint32_t m = h.masks[c];
    for (; m && !(m & 1); m >>= 1) ++shift[c];
    if (m == 0 || (m & (m + 1)) || m > 255)
      file_.refuse("a BMP with masks that are not read", "save it as PNG", "E_IMAGE_KIND");
    most[c] = static_cast<int>(m);
  }
  Image out(h.width, h.height, 3);
  for (int64_t y = 0; y < h.height; ++y) {
    const int64_t from = h.pixels + bmp_row_bytes(h) * (h.from_top ? y : h.height - 1 - y);
    uint8_t* to = out.row(y);
    for (int64_t x = 0; x < h.width; ++x, to += 3) {
      const auto at = static_cast<size_t>(from + x * h.bits / 8);
      const uint32_t v = number(at, static_cast<size_t>(h.bits / 8));
      for (size_t c = 0; c < 3; ++c)
        to[c] = static_cast<uint8_t>(h.bits == 24 ? v >> (16 - 8 * c)
                                                  : (v >> shift[c] & static_cast<uint32_t>(most[c])) * 255u /
                                                        static_cast<uint32_t>(most[c]));
    }
  }
  return out;
}

Image BmpReader::pixels(const BmpHeader& h) const {
  if (h.pixels > size() || h.pixels < 26) damaged("its pixels begin outside of it");
  if (h.bits > 8 && file_.numbers)
    file_.refuse("a mask in colors", "masks are gray or indexed images whose pixels are numbers of classes", "E_MASK");
  if (h.bits > 8) return colors(h);
  const Image in = indices(h);
  if (file_.numbers) return in;
  if (h.palette + h.colors * h.palette_entry > size()) damaged("it ends in its palette");
  Image out(h.width, h.height, 3);
  for (size_t i = 0; i < in.data.size(); ++i) {
    const int64_t entry = h.palette + std::min<int64_t>(in.data[i], h.colors - 1) * h.palette_entry;
    for (int64_t c = 0; c < 3; ++c) out.data[3 * i + static_cast<size_t>(c)] = byte(entry + 2 - c);
  }
  return out;
}

const DecoderRegistration bmp_row{{"BMP",
                                   {".bmp", ".dib"},
                                   [](std::string_view b) { return b.starts_with("BM"); },
                                   [](const EncodedImage& file) {
                                     const BmpReader reader(file);
                                     return reader.pixels(reader.header().value());
                                   },
                                   [](const EncodedImage& file) -> std::optional<ImageSize> {
                                     const auto h = BmpReader(file).header();
                                     return h ? std::optional(ImageSize{h->height, h->width}) : std::nullopt;
                                   }}};

}  // namespace

}  // namespace amp
