// Decodes still WebP images, lossy and lossless, with libwebp.
#include <webp/decode.h>
#include <webp/demux.h>

#include <memory>

#include "data/images/decoder.h"
#include "data/images/exif.h"

namespace amp {

namespace {

int orientation_of(const WebPData& data) {
  const std::unique_ptr<WebPDemuxer, void (*)(WebPDemuxer*)> demuxer(WebPDemux(&data), WebPDemuxDelete);
  if (!demuxer || !(WebPDemuxGetI(demuxer.get(), WEBP_FF_FORMAT_FLAGS) & EXIF_FLAG)) return 1;
  WebPChunkIterator chunk{};
  int orientation = 1;
  if (WebPDemuxGetChunk(demuxer.get(), "EXIF", 1, &chunk))
    orientation = exif_orientation({reinterpret_cast<const char*>(chunk.chunk.bytes), chunk.chunk.size});
  WebPDemuxReleaseChunkIterator(&chunk);
  return orientation;
}

Image decode_webp(const EncodedImage& file) {
  if (file.numbers) file.refuse("a mask as WebP", "write masks as PNG", "E_MASK");
  const WebPData data{reinterpret_cast<const uint8_t*>(file.bytes.data()), file.bytes.size()};
  WebPBitstreamFeatures features{};
  if (WebPGetFeatures(data.bytes, data.size, &features) != VP8_STATUS_OK)
    file.refuse("a damaged WebP header", "remove the file or fetch it again");
  file.check_size(features.width, features.height);
  file.check_growth(features.width, features.height, 24);
  if (features.has_animation) file.refuse("an animated WebP", "write the frame that is meant as a still image");
  Image out(features.width, features.height, 3);
  if (!WebPDecodeRGBInto(data.bytes, data.size, out.data.data(), out.data.size(), 3 * features.width))
    file.refuse("a damaged WebP, or one cut short", "remove the file or fetch it again");
  return upright(std::move(out), orientation_of(data));
}

std::optional<ImageSize> webp_size(const EncodedImage& file) {
  const WebPData data{reinterpret_cast<const uint8_t*>(file.bytes.data()), file.bytes.size()};
  WebPBitstreamFeatures features{};
  const bool known = WebPGetFeatures(data.bytes, data.size, &features) == VP8_STATUS_OK;
  constexpr size_t kFlags =
      20;  // offset of the flags in a VP8X header; the chunks that the flags announce follow the pixels
  const bool extended = file.bytes.size() > kFlags && file.bytes.substr(12, 4) == "VP8X";
  if (!file.whole && (!known || (extended && (static_cast<uint8_t>(file.bytes[kFlags]) & EXIF_FLAG))))
    return std::nullopt;
  if (!known) file.refuse("a damaged WebP header", "remove the file or fetch it again");
  file.check_size(features.width, features.height);
  return upright(ImageSize{features.height, features.width}, file.whole ? orientation_of(data) : 1);
}

const DecoderRegistration webp_row{
    {"WebP",
     {".webp"},
     [](std::string_view b) { return b.size() >= 12 && b.starts_with("RIFF") && b.substr(8, 4) == "WEBP"; },
     decode_webp,
     webp_size,
     nullptr,
     [](const EncodedImage& file) {
       return orientation_of({reinterpret_cast<const uint8_t*>(file.bytes.data()), file.bytes.size()});
     }}};

}  // namespace

}  // namespace amp
