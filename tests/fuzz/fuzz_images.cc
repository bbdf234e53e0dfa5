// Fuzzes readers of image files of every kind, as images and as masks, and files that contain many images. The
// last byte selects the reader.
#include "data/images/decoder.h"
#include "data/images/packed.h"
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace amp;
  if (size == 0) return 0;
  for (const PackedKind* kind : packed_kinds()) {
    fuzz::accepts_or_refuses([&] {
      const PackedImages images = kind->images(fuzz::as_file_bytes(fuzz::text(data, size)), "fuzz");
      for (const int64_t i : {int64_t{0}, images.count - 1})
        check(static_cast<int64_t>(images.image(i).data.size()) == images.size(), "fuzz: an image's size");
    });
  }
  fuzz::accepts_or_refuses([&] { image_size({fuzz::text(data, size), "fuzz", false, data[size - 1] % 2 == 0}); });
  return fuzz::accepts_or_refuses([&] {
    const Image image = decode_image({fuzz::text(data, size), "fuzz", data[size - 1] % 8 == 7});
    check(static_cast<int64_t>(image.data.size()) == image.width * image.height * image.channels,
          "fuzz: an image's size");
  });
}
