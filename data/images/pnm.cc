// Decodes Netpbm images: PGM and PPM, binary (P5, P6) and ASCII (P2, P3), up to 8 bits per sample. Values are scaled to
// 255 with Pillow's rounding.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "data/images/decoder.h"

namespace amp {

namespace {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

class PnmScanner {
 public:
  explicit PnmScanner(const EncodedImage& file) : file_(file) {}
  // Reads the next decimal number; comments extend from # to the end of the line.
  int64_t number() {
    while (at_ < text().size() && (is_space(text()[at_]) || text()[at_] == '#')) {
      if (text()[at_] == '#') {
        while (at_ < text().size() && text()[at_] != '\n') ++at_;
      } else {
        ++at_;
      }
    }
    int64_t v = 0;
    const auto [end, code] = std::from_chars(text().data() + at_, text().data() + text().size(), v);
    if (code != std::errc() || v < 0) file_.refuse("a damaged PNM: a number is missing or too large");
    at_ = static_cast<size_t>(end - text().data());
    return v;
  }
  // Returns the text after one separating space.
  std::string_view rest() const { return text().substr(std::min(at_ + 1, text().size())); }
  void skip(size_t n) { at_ += n; }

 private:
  std::string_view text() const { return file_.bytes; }
  const EncodedImage& file_;
  size_t at_ = 0;
};

std::optional<ImageSize> pnm_size(const EncodedImage& file) {
  PnmScanner s(file);
  s.skip(2);
  const int64_t width = s.number(), height = s.number();
  if (!file.whole && s.rest().empty()) return std::nullopt;  // the last digits may be missing
  file.check_size(width, height);
  return ImageSize{height, width};
}

Image decode_pnm(const EncodedImage& file) {
  const char kind = file.bytes[1];
  const bool plain = kind == '2' || kind == '3';
  PnmScanner s(file);
  s.skip(2);
  const int64_t width = s.number(), height = s.number(), most = s.number();
  file.check_size(width, height);
  if (most < 1 || most > 255)
    file.refuse(cat("a PNM whose largest value is ", most), "write it with 8 bits a sample, 255 at most");
  Image out;
  out.channels = kind == '3' || kind == '6' ? 3 : 1;
  if (file.numbers && out.channels == 3)
    file.refuse("a mask in colors", "masks are gray or indexed images whose pixels are numbers of classes", "E_MASK");
  const int64_t count = width * height * out.channels;
  const int64_t bytes = static_cast<int64_t>(file.bytes.size());
  if (plain ? bytes / 2 < count / 2 : static_cast<int64_t>(s.rest().size()) < count)
    file.refuse(cat("a PNM cut short: ", bytes, " bytes for ", width, " x ", height, " pixels"));
  out = Image(width, height, out.channels);
  const std::string_view raw = s.rest();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t v = plain ? s.number() : static_cast<unsigned char>(raw[static_cast<size_t>(i)]);
    if (v > most) file.refuse(cat("a PNM with the value ", v, " above its largest, ", most));
    const double scaled = static_cast<double>(v) / static_cast<double>(most) * 255;  // Pillow rounds halves to even
    out.data[static_cast<size_t>(i)] = static_cast<uint8_t>(file.numbers ? v : std::llrint(scaled));
  }
  return out;
}

const DecoderRegistration pnm_row{{"PNM",
                                   {".ppm", ".pgm", ".pnm"},
                                   [](std::string_view b) {
                                     return b.size() > 2 && b[0] == 'P' &&
                                            (b[1] == '2' || b[1] == '3' || b[1] == '5' || b[1] == '6') &&
                                            (is_space(b[2]) || b[2] == '#');
                                   },
                                   decode_pnm,
                                   pnm_size}};

}  // namespace

}  // namespace amp
