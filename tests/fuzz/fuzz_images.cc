// Image files of every kind, as images and as masks, and files that contain many images. The last byte selects the
// reader.
#include <cstring>

#include "data/images/decoder.h"
#include "data/images/packed.h"
#include "fuzz/fuzz.h"

namespace {
amp::FileBytes copy_of(const uint8_t* data, size_t size) {
  amp::FileBytes out{std::shared_ptr<uint8_t>(new uint8_t[size], std::default_delete<uint8_t[]>()),
                     static_cast<int64_t>(size)};
  std::memcpy(out.bytes.get(), data, size);
  return out;
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace amp;
  if (size == 0) return 0;
  for (const PackedKind* kind : packed_kinds()) {
    fuzz::accepts_or_refuses([&] {
      const PackedImages images = kind->images(copy_of(data, size), "fuzz");
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
