// Decodes GIF with giflib: the first picture of the file on its canvas, as Pillow shows it. Transparent pixels have the
// color of their index. Pixels that the picture does not cover have the color of the transparent index, or of index 0
// if there is none.
#include <gif_lib.h>

#include <array>
#include <cstring>

#include "data/images/decoder.h"

namespace amp {

namespace {

struct GifReader {
  explicit GifReader(const EncodedImage& f) : file(f) {
    int code = 0;
    gif = DGifOpen(this, on_read, &code);
    if (!gif) damaged(code);
  }
  GifReader(const GifReader&) = delete;
  GifReader& operator=(const GifReader&) = delete;
  ~GifReader() {
    if (gif) DGifCloseFile(gif, nullptr);
  }
  static int on_read(GifFileType* gif, GifByteType* to, int size) {
    auto* const self = static_cast<GifReader*>(gif->UserData);
    const size_t n = std::min(static_cast<size_t>(std::max(size, 0)), self->file.bytes.size() - self->at);
    std::memcpy(to, self->file.bytes.data() + self->at, n);
    self->at += n;
    return static_cast<int>(n);
  }
  [[noreturn]] void damaged(int code) const {
    const char* const why = GifErrorString(code);
    file.refuse(cat("a damaged GIF: ", why ? why : "it ends too early"), "remove the file or fetch it again");
  }
  void require(int code) const {
    if (code == GIF_ERROR) damaged(gif->Error);
  }
  void find_picture();  // reads up to the first picture
  Image indices();

  const EncodedImage& file;
  size_t at = 0;
  GifFileType* gif = nullptr;
  int transparent = -1;
  int64_t width = 0, height = 0;  // size of the canvas
};

void GifReader::find_picture() {
  while (true) {
    GifRecordType kind = UNDEFINED_RECORD_TYPE;
    require(DGifGetRecordType(gif, &kind));
    if (kind == IMAGE_DESC_RECORD_TYPE) break;
    if (kind != EXTENSION_RECORD_TYPE) file.refuse("a GIF without a picture", "remove the file or fetch it again");
    int code = 0;
    GifByteType* block = nullptr;
    require(DGifGetExtension(gif, &code, &block));
    GraphicsControlBlock control{};
    if (code == GRAPHICS_EXT_FUNC_CODE && block && DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK)
      transparent = control.TransparentColor;
    while (block) require(DGifGetExtensionNext(gif, &block));
  }
  require(DGifGetImageDesc(gif));
  width = std::max<int64_t>(gif->SWidth, int64_t{gif->Image.Left} + gif->Image.Width);
  height = std::max<int64_t>(gif->SHeight, int64_t{gif->Image.Top} + gif->Image.Height);
  file.check_size(width, height);
  file.check_size(gif->Image.Width, gif->Image.Height);
}

Image GifReader::indices() {
  Image out(width, height, 1, static_cast<uint8_t>(std::max(transparent, 0)));
  const auto line = [&](int64_t y) {
    require(DGifGetLine(gif, out.row(gif->Image.Top + y) + gif->Image.Left, gif->Image.Width));
  };
  if (!gif->Image.Interlace) {
    for (int64_t y = 0; y < gif->Image.Height; ++y) line(y);
    return out;
  }
  for (const auto& [first, step] : {std::pair{0, 8}, {4, 8}, {2, 4}, {1, 2}}) {
    for (int64_t y = first; y < gif->Image.Height; y += step) line(y);
  }
  return out;
}

Image decode_gif(const EncodedImage& file) {
  GifReader r(file);
  r.find_picture();
  // An LZW code has up to 12 bits and expands to up to 4096 pixels. So a file whose header states more pixels is
  // damaged.
  if (r.width * r.height > (1 << 16) + 4096 * static_cast<int64_t>(file.bytes.size()))
    file.refuse(
        cat("a damaged GIF: its ", file.bytes.size(), " bytes cannot hold ", r.width, " x ", r.height, " pixels"),
        "remove the file or fetch it again");
  file.check_growth(r.width, r.height, 8);
  const Image in = r.indices();
  if (file.numbers) return in;
  const ColorMapObject* const map = r.gif->Image.ColorMap ? r.gif->Image.ColorMap : r.gif->SColorMap;
  std::array<std::array<uint8_t, 3>, 256> colors;
  for (int i = 0; i < 256; ++i) {
    const bool known = map && i < map->ColorCount;
    const GifColorType c = known ? map->Colors[i] : GifColorType{};
    const auto grey = static_cast<uint8_t>(i);
    colors[static_cast<size_t>(i)] =
        known ? std::array<uint8_t, 3>{c.Red, c.Green, c.Blue} : std::array<uint8_t, 3>{grey, grey, grey};
  }
  Image out(in.width, in.height, 3);
  for (size_t i = 0; i < in.data.size(); ++i) std::memcpy(out.data.data() + 3 * i, colors[in.data[i]].data(), 3);
  return out;
}

std::optional<ImageSize> gif_size(const EncodedImage& file) {
  if (!file.whole) return std::nullopt;  // the header's size is not enough: the first picture may be larger
  GifReader r(file);
  r.find_picture();
  return ImageSize{r.height, r.width};
}

// Counts the pictures without decoding them: skips the data blocks of the file.
int64_t gif_frames(const EncodedImage& file) {
  const auto byte = [&](size_t i) { return i < file.bytes.size() ? static_cast<unsigned char>(file.bytes[i]) : 0u; };
  const auto table = [&](unsigned flags) { return flags & 0x80u ? size_t{3} << ((flags & 7u) + 1) : size_t{0}; };
  const auto skip_blocks = [&](size_t i) {
    while (byte(i)) i += byte(i) + 1;
    return i + 1;
  };
  int64_t frames = 0;
  for (size_t i = 13 + table(byte(10)); i < file.bytes.size();) {
    if (byte(i) == 0x21) {
      i = skip_blocks(i + 2);
    } else if (byte(i) == 0x2c) {
      ++frames;
      i = skip_blocks(i + 11 + table(byte(i + 9)));
    } else {
      break;
    }
  }
  return frames;
}

const DecoderRegistration gif_row{
    {"GIF",
     {".gif"},
     [](std::string_view b) { return b.starts_with("GIF87a") || b.starts_with("GIF89a"); },
     decode_gif,
     gif_size,
     gif_frames}};

}  // namespace

}  // namespace amp
