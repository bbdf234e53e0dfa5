// WebP by libwebp: still images, lossy and lossless.
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
  if (features.has_animation) file.refuse("an animated WebP", "write the frame that is meant as a still image");
  Image out(features.width, features.height, 3);
  if (!WebPDecodeRGBInto(data.bytes, data.size, out.data.data(), out.data.size(), 3 * features.width))
    file.refuse("a damaged WebP, or one cut short", "remove the file or fetch it again");
  return upright(std::move(out), orientation_of(data));
}

const DecoderRegistration registered{
    {"WebP",
     {".webp"},
     [](std::string_view b) { return b.size() >= 12 && b.starts_with("RIFF") && b.substr(8, 4) == "WEBP"; },
     decode_webp}};

}  // namespace

}  // namespace amp
