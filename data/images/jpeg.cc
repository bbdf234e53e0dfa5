// Decodes JPEG with libjpeg-turbo, with the slow integer DCT and smooth upsampling, as Pillow does. Errors longjmp, so
// functions that libjpeg may leave must not hold objects with destructors. jpeglib.h needs the preceding includes.
// clang-format off
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <algorithm>

#include "data/images/decoder.h"
#include "data/images/exif.h"

namespace amp {

namespace {

// Largest number of scans of a progressive file; more would only consume time. Each scan of a few bytes visits every
// pixel, so large images may have fewer: kMaxScannedPixels in all scans, but at least kUsualScans.
constexpr int kMaxScans = 500, kUsualScans = 20;
constexpr int64_t kMaxScannedPixels = kUsualScans * kMaxPixels;

struct JpegReader {
  explicit JpegReader(const EncodedImage& f) : file(f) {
    codec.err = jpeg_std_error(&errors);
    codec.client_data = this;
    errors.error_exit = on_error;
    errors.emit_message = on_message;
    monitor.progress_monitor = on_progress;
  }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;
  ~JpegReader() { jpeg_destroy_decompress(&codec); }

  static JpegReader& of(j_common_ptr c) { return *static_cast<JpegReader*>(c->client_data); }
  static void on_error(j_common_ptr c) {
    (*c->err->format_message)(c, of(c).why);
    std::longjmp(of(c).jump, 1);
  }
  // Treats a truncated file as an error. Libjpeg only warns about it and fills the rest with gray.
  static void on_message(j_common_ptr c, int level) {
    if (level < 0 && c->err->msg_code == JWRN_JPEG_EOF) on_error(c);
  }
  static void on_progress(j_common_ptr c) {
    if (!c->is_decompressor) return;
    const auto* const d = reinterpret_cast<j_decompress_ptr>(c);
    const int64_t pixels = std::max(int64_t{1}, int64_t{d->image_width} * d->image_height);
    const auto most = static_cast<int>(std::clamp<int64_t>(kMaxScannedPixels / pixels, kUsualScans, kMaxScans));
    if (d->input_scan_number <= most) return;
    std::snprintf(of(c).why, sizeof of(c).why, "it has more than %d scans", most);
    std::longjmp(of(c).jump, 1);
  }

  bool header();
  bool pixels(Image& out);
  int orientation() const;

  const EncodedImage& file;
  jpeg_decompress_struct codec{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr monitor{};
  std::jmp_buf jump{};
  char why[JMSG_LENGTH_MAX] = {};
};

bool JpegReader::header() {
  if (setjmp(jump)) return false;
  jpeg_create_decompress(&codec);
  codec.progress = &monitor;
  jpeg_mem_src(&codec, reinterpret_cast<const unsigned char*>(file.bytes.data()), file.bytes.size());
  jpeg_save_markers(&codec, JPEG_APP0 + 1, 0xffff);
  jpeg_read_header(&codec, TRUE);
  codec.out_color_space = codec.num_components == 1 ? JCS_GRAYSCALE : codec.num_components == 4 ? JCS_CMYK : JCS_RGB;
  jpeg_calc_output_dimensions(&codec);
  return true;
}

bool JpegReader::pixels(Image& out) {
  if (setjmp(jump)) return false;
  jpeg_start_decompress(&codec);
  while (codec.output_scanline < codec.output_height) {
    JSAMPROW row = out.row(codec.output_scanline);
    jpeg_read_scanlines(&codec, &row, 1);
  }
  jpeg_finish_decompress(&codec);
  return true;
}

int JpegReader::orientation() const {
  for (const jpeg_marker_struct* m = codec.marker_list; m; m = m->next) {
    const std::string_view block(reinterpret_cast<const char*>(m->data), m->data_length);
    if (m->marker == JPEG_APP0 + 1 && block.starts_with("Exif")) return exif_orientation(block);
  }
  return 1;
}

// Converts inverted CMYK as Adobe writes it (255 is no ink), without a color profile, as Pillow's convert("RGB").
Image from_inks(const Image& inks) {
  Image out(inks.width, inks.height, 3);
  for (size_t i = 0; i < inks.data.size() / 4; ++i) {
    const uint8_t* const p = inks.data.data() + 4 * i;
    for (size_t c = 0; c < 3; ++c) {
      const unsigned t = (255u - p[c]) * p[3] + 128u;  // p[3] is 255 minus the black value
      out.data[3 * i + c] = static_cast<uint8_t>(p[3] - ((t + (t >> 8)) >> 8));
    }
  }
  return out;
}

Image decode_jpeg(const EncodedImage& file) {
  if (file.numbers) file.refuse("a mask as JPEG, which keeps no exact values", "write masks as PNG", "E_MASK");
  JpegReader r(file);
  const auto damaged = [&] { file.refuse(cat("a damaged JPEG: ", r.why), "remove the file or fetch it again"); };
  if (!r.header()) damaged();
  file.check_size(r.codec.output_width, r.codec.output_height);
  file.check_growth(r.codec.output_width, r.codec.output_height, 8 * int64_t{r.codec.num_components});
  const int orientation = r.orientation();  // read first, because decoding frees the markers
  Image out(r.codec.output_width, r.codec.output_height, r.codec.out_color_components);
  if (!r.pixels(out)) damaged();
  if (out.channels == 4) out = from_inks(out);
  return upright(std::move(out), orientation);
}

std::optional<ImageSize> jpeg_size(const EncodedImage& file) {
  JpegReader r(file);
  if (!r.header()) {
    if (!file.whole) return std::nullopt;
    file.refuse(cat("a damaged JPEG: ", r.why), "remove the file or fetch it again");
  }
  file.check_size(r.codec.output_width, r.codec.output_height);
  return upright(ImageSize{r.codec.output_height, r.codec.output_width}, r.orientation());
}

const DecoderRegistration jpeg_row{{"JPEG",
                                    {".jpg", ".jpeg", ".jpe", ".jfif"},
                                    [](std::string_view b) { return b.starts_with("\xff\xd8\xff"); },
                                    decode_jpeg,
                                    jpeg_size,
                                    nullptr,
                                    [](const EncodedImage& file) {
                                      JpegReader r(file);
                                      return r.header() ? r.orientation() : 1;
                                    }}};

}  // namespace

}  // namespace amp
