// Image files of every kind, as pictures and as masks; the last byte chooses.
#include "data/images/decoder.h"
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace amp;
  if (size == 0) return 0;
  return fuzz::accepts_or_refuses([&] {
    const Image image = decode_image({fuzz::text(data, size), "fuzz", data[size - 1] % 8 == 7});
    check(static_cast<int64_t>(image.data.size()) == image.width * image.height * image.channels,
          "fuzz: an image's size");
  });
}
